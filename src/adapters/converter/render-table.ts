/** A table that stays in one chunk of the default size. */
const wholeTableLength = 1_500;

/**
 * A small table is a Markdown table. A larger one will be cut into chunks, and a row is found only when it still says
 * what its values are: then each row is one line of `column: value` pairs. Rows may be short and have gaps.
 */
export function renderTable(header: string[], rows: string[][]): string {
  const cells = [header, ...rows].map((row) => row.map((cell) => cell.replace(/\s+/g, ' ')));
  const length = cells.flat().reduce((sum, cell) => sum + cell.length + 3, 0);
  return length <= wholeTableLength ? markdownTable(cells) : recordLines(cells);
}

function markdownTable(cells: string[][]): string {
  const width = Math.max(...cells.map((row) => row.length));
  const line = (row: string[]) => `| ${row.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`;
  const [header = [], ...rows] = cells.map((row) => Array.from({ length: width }, (_, column) => row[column] ?? ''));
  return [line(header), line(header.map(() => '---')), ...rows.map(line)].join('\n');
}

function recordLines([header = [], ...rows]: string[][]): string {
  return rows.map((row) => row.flatMap((cell, column) => labelled(header[column], cell)).join('; ')).join('\n');
}

function labelled(column: string | undefined, cell: string): string[] {
  if (cell === '') return [];
  return [column ? `${column}: ${cell}` : cell];
}
