import { appendTextBlocks, flattenTableCell, markdownLink, paragraphBlocks, type TextBlock } from './blocks.ts';

export type OfficeParagraphState = { headingLevel: number | null; listDepth: number; isInTable: boolean };

type Cell = { right: number; isContinued: boolean };
type Row = { text: string; right: number; isContinued: boolean }[];

const edgeTolerance = 60;
/** A table with more distinct column edges than this is not aligned to a common grid. */
const maxColumns = 100;
/** Assumed cell width (1 inch) where the file gives none. */
const defaultCellWidth = 1_440;

export type OfficeTextBuilder = ReturnType<typeof createOfficeTextBuilder>;

export function createOfficeTextBuilder() {
  const blocks: TextBlock[] = [];
  let text = '';
  let label: string | null = null;
  let after: TextBlock[] = [];
  let hasPageNumber = false;
  let cell: TextBlock[] = [];
  let definitions: Cell[] = [];
  let row: string[] = [];
  let rows: Row[] = [];
  let asides: TextBlock[] = [];

  function endParagraph(state: OfficeParagraphState): void {
    const { headingLevel, listDepth, isInTable } = state;
    // Some programs separate cells without a row around them: the paragraph is the row then.
    if (!isInTable && row.length > 0 && definitions.length === 0) {
      if (text.trim() !== '') endCell(state);
      endRow();
      return;
    }
    const isFilled = text.trim() !== '' || after.length > 0;
    if (!isInTable && isFilled) endTable();
    const target = isInTable ? cell : blocks;
    if (text.trim() !== '' && !hasPageNumber) {
      if (headingLevel !== null)
        target.push({ kind: 'heading', level: headingLevel, text: `${number() ?? ''} ${text}` });
      else if (label !== null) target.push({ kind: 'item', depth: listDepth, label: number(), text });
      else target.push(...paragraphBlocks(text));
    }
    appendTextBlocks(target, after);
    text = '';
    label = null;
    after = [];
    hasPageNumber = false;
  }

  /**
   * Returns a paragraph's label if it is a list number; null for a bullet, which may be any character of a symbol font.
   */
  function number(): string | null {
    const sign = label?.trim() ?? '';
    return /\p{N}/u.test(sign) || /^\(?\p{L}{1,8}[.)]$/u.test(sign) ? sign : null;
  }

  function endCell(state: OfficeParagraphState): void {
    endParagraph({ ...state, isInTable: true });
    const content = flattenTableCell(cell);
    row.push(content.text.replace(/;$/, ''));
    appendTextBlocks(asides, content.asides);
    cell = [];
  }

  function endRow(): void {
    // Some programs write more cells than the row's definition has.
    while (definitions.length > 0 && row.length > definitions.length && row.at(-1) === '') row.pop();
    rows.push(
      row.map((text, index) => {
        const definition = definitions[index];
        return {
          text,
          right: definition?.right ?? (index + 1) * defaultCellWidth,
          isContinued: definition?.isContinued ?? false,
        };
      }),
    );
    row = [];
  }

  function endTable(): void {
    if (rows.length === 0) return;
    const edges = columnEdges(rows);
    const grid: string[][] = [];
    for (const cells of rows) {
      if (edges.length > maxColumns) {
        grid.push(cells.map((cell) => cell.text));
        continue;
      }
      const line = Array<string>(edges.length).fill('');
      let column = 0;
      for (const { text, right, isContinued } of cells) {
        line[column] = isContinued ? (grid.at(-1)?.[column] ?? '') : text;
        column = Math.max(column + 1, edges.filter((edge) => edge <= right).length);
      }
      grid.push(line);
    }
    if (grid.flat().some((each) => each !== '')) blocks.push({ kind: 'table', rows: grid });
    appendTextBlocks(blocks, asides);
    rows = [];
    asides = [];
  }

  return {
    blocks,
    append(more: string) {
      text += more;
    },
    isEmpty: () => text.trim() === '',
    setLabel(sign: string) {
      label = sign;
    },
    addAfter(more: TextBlock[]) {
      appendTextBlocks(after, more);
    },
    markPageNumber() {
      hasPageNumber = true;
    },
    position: () => text.length,
    linkFrom(start: number, address: string | undefined) {
      text = text.slice(0, start) + markdownLink(text.slice(start), address);
    },
    endParagraph,
    endInnerCell() {
      text += ', ';
    },
    endInnerRow() {
      text = `${text.replace(/, $/, '')}; `;
    },
    beginRow() {
      definitions = [];
    },
    defineCell(definition: Cell) {
      definitions.push(definition);
    },
    endCell,
    endRow,
    end(state: OfficeParagraphState) {
      endParagraph({ ...state, isInTable: false });
      if (cell.length > 0) endCell(state);
      if (row.length > 0) endRow();
      endTable();
    },
  };
}

function columnEdges(rows: Row[]): number[] {
  const edges: number[] = [];
  const all = rows.flatMap((row) => row.map(({ right }) => right)).sort((a, b) => a - b);
  for (const edge of all) if (edge - (edges.at(-1) ?? -Infinity) > edgeTolerance) edges.push(edge);
  return edges;
}
