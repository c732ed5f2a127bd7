import { paragraph, type TextBlock } from './blocks.ts';
import { readRelationships, readXmlPart, type ZipParts } from './package-parts.ts';
import { childAt, childrenNamed, descendants, textOf, type XmlElement } from './xml.ts';

/** What the parts that a text or a slide shows say, by the id of their relationship. */
export type DrawingParts = ReadonlyMap<string, TextBlock[]>;

/** Charts with their numbers, and diagrams (SmartArt) with their texts. */
export async function readDrawingParts(parts: ZipParts, partName: string): Promise<DrawingParts> {
  const found = new Map<string, TextBlock[]>();
  for (const { id, type, target } of await readRelationships(parts, partName)) {
    const read = type === 'chart' ? chart : type === 'diagramData' ? diagram : null;
    const root = read && (await readXmlPart(parts, target));
    if (read && root) found.set(id, read(root));
  }
  return found;
}

/** A column for each series, a row for each category. */
function chart(root: XmlElement): TextBlock[] {
  const area = childAt(root, 'c:chart');
  const title = descendants(childAt(area, 'c:title'), 'a:t').map(textOf).join('');
  const series = descendants(childAt(area, 'c:plotArea'), 'c:ser');
  const [first] = series;
  const categories = points(childAt(first, 'c:cat') ?? childAt(first, 'c:xVal'));
  const columns = series.map((each) => points(childAt(each, 'c:val') ?? childAt(each, 'c:yVal')));
  const names = series.map((each) => descendants(childAt(each, 'c:tx'), 'c:v').map(textOf).join(' '));
  const count = Math.max(0, ...[categories, ...columns].map((values) => values.length));
  const rows = Array.from({ length: count }, (_, row) => [categories, ...columns].map((values) => values[row] ?? ''));
  const table: TextBlock[] = rows.length > 0 ? [{ kind: 'table', rows: [['', ...names], ...rows] }] : [];
  return [...paragraph(title), ...table];
}

/** The values that the chart was last drawn with. */
function points(values: XmlElement | undefined): string[] {
  const found: string[] = [];
  for (const point of descendants(values, 'c:pt')) {
    const index = Number(point.attributes.idx);
    if (index < 100_000) found[index] = textOf(childAt(point, 'c:v'));
  }
  return Array.from(found, (value) => value ?? '');
}

function diagram(root: XmlElement): TextBlock[] {
  return childrenNamed(childAt(root, 'dgm:ptLst'), 'dgm:pt').flatMap((point): TextBlock[] => {
    const text = descendants(childAt(point, 'dgm:t'), 'a:t').map(textOf).join('');
    return text.trim() === '' ? [] : [{ kind: 'item', depth: 0, label: null, text }];
  });
}
