/** Prints the progress of the demo. A terminal rewrites the progress line; a pipe gets each line once. */
export type Narrator = ReturnType<typeof createNarrator>;

const EXCERPT_LENGTH = 220;

export function createNarrator(out: { isTTY?: boolean; write(text: string): boolean }) {
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
      statement: string,
    ) => {
      line(`  [${number}] ${chunk.document_name}, page ${chunk.page_number}, offset ${chunk.content_offset}`);
      line(`      ${dim(excerpt(chunk.content, statement))}`);
    },
    alignment: (echo: { state: string; ewma: number } | null) => {
      if (echo === null) return line(`  ${dim('alignment: still being scored')}`);
      line(`  alignment: ${bold(echo.state)}, trend ${echo.ewma.toFixed(1)} of 100`);
    },
  };
}

/** Returns the part of a passage with the most words of the statement, or its beginning if none occur. */
function excerpt(content: string, statement: string): string {
  const text = content.replace(/\s+/g, ' ').trim();
  if (text.length <= EXCERPT_LENGTH) return text;
  const words = [...new Set(statement.toLowerCase().match(/[\p{L}\p{N}]{3,}/gu) ?? [])];
  let best = { start: 0, hits: 0 };
  for (const { index } of text.matchAll(/(?<=^|[.:;!?] )\S/g)) {
    const part = text.slice(index, index + EXCERPT_LENGTH).toLowerCase();
    const hits = words.filter((word) => part.includes(word)).length;
    if (hits > best.hits) best = { start: index, hits };
  }
  const end = best.start + EXCERPT_LENGTH;
  return `${best.start > 0 ? '… ' : ''}${text.slice(best.start, end)}${end < text.length ? ' …' : ''}`;
}
