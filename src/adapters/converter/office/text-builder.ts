import { addBlocks, flattenCell, link, paragraph, type TextBlock } from './blocks.ts';

/** What the paragraph says about itself when it ends. */
export type StoryParagraph = { headingLevel: number | null; listDepth: number; isInTable: boolean };

type Cell = { right: number; isContinued: boolean };
type Row = { text: string; right: number; isContinued: boolean }[];

/** Edges of cells that are nearer, in twentieths of a point, are the same edge. */
const edgeTolerance = 60;
/** Rows with more edges between them do not stand below one another. */
const mostColumns = 100;
/** Of cells that do not say where they end. */
const usualWidth = 1_440;

/** A text of its own: that of the document, of a header, a note or a text box. */
export type Story = ReturnType<typeof createStory>;

export function createStory() {
  const blocks: TextBlock[] = [];
  let text = '';
  let label: string | null = null;
  let after: TextBlock[] = [];
  let countsPages = false;
  let cell: TextBlock[] = [];
  let definitions: Cell[] = [];
  let row: string[] = [];
  let rows: Row[] = [];
  let asides: TextBlock[] = [];

  function endParagraph({ headingLevel, listDepth, isInTable }: StoryParagraph): void {
    const isFilled = text.trim() !== '' || after.length > 0;
    if (!isInTable && isFilled) endTable();
    const target = isInTable ? cell : blocks;
    // The number of a page is another one on each: its line says nothing about the document.
    if (text.trim() !== '' && !countsPages) {
      if (headingLevel !== null)
        target.push({ kind: 'heading', level: headingLevel, text: `${number() ?? ''} ${text}` });
      else if (label !== null) target.push({ kind: 'item', depth: listDepth, label: number(), text });
      else target.push(...paragraph(text));
    }
    addBlocks(target, after);
    text = '';
    label = null;
    after = [];
    countsPages = false;
  }

  /** Null for the signs that are bullets, whatever they are in their fonts. */
  function number(): string | null {
    const sign = label?.trim() ?? '';
    return /\p{N}/u.test(sign) || /^\(?\p{L}{1,8}[.)]$/u.test(sign) ? sign : null;
  }

  function endTable(): void {
    if (rows.length === 0) return;
    const edges = columnEdges(rows);
    const grid: string[][] = [];
    for (const cells of rows) {
      if (edges.length > mostColumns) {
        grid.push(cells.map((cell) => cell.text));
        continue;
      }
      const line = Array<string>(edges.length).fill('');
      let column = 0;
      for (const { text, right, isContinued } of cells) {
        line[column] = isContinued ? (grid.at(-1)?.[column] ?? '') : text;
        // The next cell begins behind the edge where this one ends.
        column = Math.max(column + 1, edges.filter((edge) => edge <= right).length);
      }
      grid.push(line);
    }
    if (grid.flat().some((each) => each !== '')) blocks.push({ kind: 'table', rows: grid });
    addBlocks(blocks, asides);
    rows = [];
    asides = [];
  }

  return {
    blocks,
    append(more: string) {
      text += more;
    },
    /** Whether the paragraph holds nothing so far. */
    isEmpty: () => text.trim() === '',
    setLabel(sign: string) {
      label = sign;
    },
    addAfter(more: TextBlock[]) {
      addBlocks(after, more);
    },
    markPageNumber() {
      countsPages = true;
    },
    /** Where the text is that a link begun now would have. */
    position: () => text.length,
    linkFrom(start: number, address: string | undefined) {
      text = text.slice(0, start) + link(text.slice(start), address);
    },
    endParagraph,
    /** Tables inside of cells are lines of the cell. */
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
    endCell(state: StoryParagraph) {
      endParagraph({ ...state, isInTable: true });
      const content = flattenCell(cell);
      row.push(content.text.replace(/;$/, ''));
      addBlocks(asides, content.asides);
      cell = [];
    },
    endRow() {
      // Some writers end more cells than the row has.
      while (definitions.length > 0 && row.length > definitions.length && row.at(-1) === '') row.pop();
      rows.push(
        row.map((text, index) => {
          const definition = definitions[index];
          return {
            text,
            right: definition?.right ?? (index + 1) * usualWidth,
            isContinued: definition?.isContinued ?? false,
          };
        }),
      );
      row = [];
    },
    end(state: StoryParagraph) {
      endParagraph({ ...state, isInTable: false });
      endTable();
    },
  };
}

/** The right edges of the columns: a row with wider cells has fewer of them. */
function columnEdges(rows: Row[]): number[] {
  const edges: number[] = [];
  const all = rows.flatMap((row) => row.map(({ right }) => right)).sort((a, b) => a - b);
  for (const edge of all) if (edge - (edges.at(-1) ?? -Infinity) > edgeTolerance) edges.push(edge);
  return edges;
}
