/** Prints the progress of the demo. A terminal rewrites the progress line; a pipe gets each line once. */
export type Narrator = ReturnType<typeof createNarrator>;

/** The four fields are null if the document was replaced while the answer was written. */
export type Citation = {
  document_name: string | null;
  page_number: number | null;
  heading: string | null;
  quote: string | null;
};

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
    citation: (number: number, { document_name, page_number, heading, quote }: Citation) => {
      const under = heading === null ? '' : `, under “${heading}”`;
      line(`  [${number}] ${document_name ?? 'a replaced document'}, page ${page_number ?? '?'}${under}`);
      if (quote !== null) line(`      ${dim(quote.replace(/\s+/g, ' '))}`);
    },
    alignment: (echo: { state: string; ewma: number } | null) => {
      if (echo === null) return line(`  ${dim('alignment: still being scored')}`);
      line(`  alignment: ${bold(echo.state)}, trend ${echo.ewma.toFixed(1)} of 100`);
    },
  };
}
