import { paragraph, type TextBlock } from './blocks.ts';
import {
  childAt,
  childrenNamed,
  descendants,
  elementsOf,
  readRelationships,
  readXmlPart,
  textOf,
  type XmlElement,
  type ZipParts,
} from './xml-parts.ts';

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

/** A Word equation in the notation of LaTeX; signs stay the characters that they are. */
export function equation(element: XmlElement): string {
  return parts(element).replace(/\s+/g, ' ').trim();
}

function parts(element: XmlElement | undefined): string {
  return elementsOf(element).map(part).join('');
}

const group = (element: XmlElement, name: string) => `{${parts(childAt(element, name))}}`;
const property = (element: XmlElement, name: string) =>
  childAt(element, `${element.name}Pr`, name)?.attributes['m:val'];

const writers: Record<string, (element: XmlElement) => string> = {
  // Nobody sees where a function is applied, nor what is multiplied.
  'm:t': (element) => textOf(element).replace(/[\u2061-\u2064]/g, ' '),
  'm:f': (element) => `\\frac${group(element, 'm:num')}${group(element, 'm:den')}`,
  'm:sSup': (element) => `${parts(childAt(element, 'm:e'))}^${group(element, 'm:sup')}`,
  'm:sSub': (element) => `${parts(childAt(element, 'm:e'))}_${group(element, 'm:sub')}`,
  'm:sSubSup': (element) => `${parts(childAt(element, 'm:e'))}_${group(element, 'm:sub')}^${group(element, 'm:sup')}`,
  'm:rad': (element) => {
    const degree = parts(childAt(element, 'm:deg'));
    return `\\sqrt${degree && `[${degree}]`}${group(element, 'm:e')}`;
  },
  'm:nary': (element) => {
    const [from, to] = [parts(childAt(element, 'm:sub')), parts(childAt(element, 'm:sup'))];
    const limits = (from && `_{${from}}`) + (to && `^{${to}}`);
    return `${property(element, 'm:chr') ?? '∫'}${limits}${group(element, 'm:e')}`;
  },
  'm:d': (element) => {
    const inner = childrenNamed(element, 'm:e').map(parts);
    const [begin = '(', end = ')'] = [property(element, 'm:begChr'), property(element, 'm:endChr')];
    return begin + inner.join(property(element, 'm:sepChr') ?? '|') + end;
  },
  'm:m': (element) => {
    const rows = childrenNamed(element, 'm:mr').map((row) => childrenNamed(row, 'm:e').map(parts).join(' & '));
    return `\\begin{matrix}${rows.join(' \\\\ ')}\\end{matrix}`;
  },
  'm:eqArr': (element) => childrenNamed(element, 'm:e').map(parts).join(' \\\\ '),
  'm:func': (element) => `${parts(childAt(element, 'm:fName'))} ${group(element, 'm:e')}`,
  'm:limLow': (element) => `${parts(childAt(element, 'm:e'))}_${group(element, 'm:lim')}`,
  'm:limUpp': (element) => `${parts(childAt(element, 'm:e'))}^${group(element, 'm:lim')}`,
};

function part(element: XmlElement): string {
  return writers[element.name]?.(element) ?? parts(element);
}
