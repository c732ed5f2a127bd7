/** What the demo tells its reader. On a terminal a running line is rewritten; in a pipe each line is printed once. */
export type Narrator = ReturnType<typeof createNarrator>;

const EXCERPT_LENGTH = 220;

export function createNarrator(out: NodeJS.WriteStream) {
  const live = out.isTTY === true;
  const paint = (code: number, text: string): string => (live ? `\u001b[${code}m${text}\u001b[0m` : text);
  const dim = (text: string): string => paint(2, text);
  const bold = (text: string): string => paint(1, text);
  let lastProgress = '';

  const line = (text = ''): void => {
    if (live && lastProgress !== '') out.write('\r\u001b[2K');
    lastProgress = '';
    out.write(`${text}\n`);
  };

  return {
    line,
    heading: (text: string) => line(`\n${bold(text)}`),
    note: (text: string) => line(`  ${dim(text)}`),
    progress: (name: string, state: string) => {
      const text = `  ${name}: ${state}`;
      if (text === lastProgress) return;
      if (live) out.write(`\r\u001b[2K${text}`);
      else out.write(`${text}\n`);
      lastProgress = text;
    },
    done: (name: string, summary: string, link: string | null) => {
      line(`  ${paint(32, '✓')} ${name}: ${summary}`);
      if (link !== null) line(`    ${dim(link)}`);
    },
    failed: (name: string, reason: string, link: string | null) => {
      line(`  ${paint(31, '✗')} ${name}: ${reason}`);
      if (link !== null) line(`    ${dim(link)}`);
    },
    question: (text: string) => line(`\n${bold('Q')} ${text}`),
    token: (text: string) => out.write(text),
    endAnswer: (model: string) => line(`\n  ${dim(`answered by ${model}`)}`),
    citation: (
      number: number,
      chunk: { document_name: string; page_number: number; content_offset: number; content: string },
    ) => {
      line(`  [${number}] ${chunk.document_name}, page ${chunk.page_number}, offset ${chunk.content_offset}`);
      const excerpt = chunk.content.replace(/\s+/g, ' ').trim();
      line(`      ${dim(excerpt.length > EXCERPT_LENGTH ? `${excerpt.slice(0, EXCERPT_LENGTH)}…` : excerpt)}`);
    },
    alignment: (echo: { state: string; ewma: number; alignment_score?: number } | null) => {
      if (echo === null) return line(`  ${dim('alignment: still being scored')}`);
      const score = echo.alignment_score === undefined ? '' : `, score ${echo.alignment_score.toFixed(2)}`;
      line(`  alignment: ${bold(echo.state)}, trend ${echo.ewma.toFixed(1)} of 100${score}`);
    },
  };
}
