import { paragraphBlocks, type TextBlock } from './blocks.ts';
import {
  childAtPath,
  childElements,
  childrenNamed,
  descendantsNamed,
  readRelationships,
  readXmlPart,
  textContent,
  type XmlElement,
  type ZipParts,
} from './xml-parts.ts';

export type ChartsAndDiagrams = ReadonlyMap<string, TextBlock[]>;

export async function readChartsAndDiagrams(parts: ZipParts, partName: string): Promise<ChartsAndDiagrams> {
  const found = new Map<string, TextBlock[]>();
  for (const { id, type, target } of await readRelationships(parts, partName)) {
    const read = type === 'chart' ? readChart : type === 'diagramData' ? readDiagram : null;
    const root = read && (await readXmlPart(parts, target));
    if (read && root) found.set(id, read(root));
  }
  return found;
}

function readChart(root: XmlElement): TextBlock[] {
  const area = childAtPath(root, 'c:chart');
  const title = descendantsNamed(childAtPath(area, 'c:title'), 'a:t').map(textContent).join('');
  const series = descendantsNamed(childAtPath(area, 'c:plotArea'), 'c:ser');
  const [first] = series;
  const categories = cachedValues(childAtPath(first, 'c:cat') ?? childAtPath(first, 'c:xVal'));
  const columns = series.map((each) => cachedValues(childAtPath(each, 'c:val') ?? childAtPath(each, 'c:yVal')));
  const names = series.map((each) => descendantsNamed(childAtPath(each, 'c:tx'), 'c:v').map(textContent).join(' '));
  const count = Math.max(0, ...[categories, ...columns].map((values) => values.length));
  const rows = Array.from({ length: count }, (_, row) => [categories, ...columns].map((values) => values[row] ?? ''));
  const table: TextBlock[] = rows.length > 0 ? [{ kind: 'table', rows: [['', ...names], ...rows] }] : [];
  return [...paragraphBlocks(title), ...table];
}

function cachedValues(values: XmlElement | undefined): string[] {
  const found: string[] = [];
  for (const point of descendantsNamed(values, 'c:pt')) {
    const index = Number(point.attributes.idx);
    if (index < 100_000) found[index] = textContent(childAtPath(point, 'c:v'));
  }
  return Array.from(found, (value) => value ?? '');
}

function readDiagram(root: XmlElement): TextBlock[] {
  return childrenNamed(childAtPath(root, 'dgm:ptLst'), 'dgm:pt').flatMap((point): TextBlock[] => {
    const text = descendantsNamed(childAtPath(point, 'dgm:t'), 'a:t').map(textContent).join('');
    return text.trim() === '' ? [] : [{ kind: 'item', depth: 0, label: null, text }];
  });
}

/** Converts an Office equation (OMML) to LaTeX. Unicode symbols are not replaced by LaTeX commands. */
export function equationToLatex(element: XmlElement): string {
  return latexOf(element).replace(/\s+/g, ' ').trim();
}

function latexOf(element: XmlElement | undefined): string {
  return childElements(element).map(part).join('');
}

const group = (element: XmlElement, name: string) => `{${latexOf(childAtPath(element, name))}}`;
const property = (element: XmlElement, name: string) =>
  childAtPath(element, `${element.name}Pr`, name)?.attributes['m:val'];

const writers: Record<string, (element: XmlElement) => string> = {
  // Invisible math operators (function application, invisible times) become spaces.
  'm:t': (element) => textContent(element).replace(/[\u2061-\u2064]/g, ' '),
  'm:f': (element) => `\\frac${group(element, 'm:num')}${group(element, 'm:den')}`,
  'm:sSup': (element) => `${latexOf(childAtPath(element, 'm:e'))}^${group(element, 'm:sup')}`,
  'm:sSub': (element) => `${latexOf(childAtPath(element, 'm:e'))}_${group(element, 'm:sub')}`,
  'm:sSubSup': (element) =>
    `${latexOf(childAtPath(element, 'm:e'))}_${group(element, 'm:sub')}^${group(element, 'm:sup')}`,
  'm:rad': (element) => {
    const degree = latexOf(childAtPath(element, 'm:deg'));
    return `\\sqrt${degree && `[${degree}]`}${group(element, 'm:e')}`;
  },
  'm:nary': (element) => {
    const [from, to] = [latexOf(childAtPath(element, 'm:sub')), latexOf(childAtPath(element, 'm:sup'))];
    const limits = (from && `_{${from}}`) + (to && `^{${to}}`);
    return `${property(element, 'm:chr') ?? '∫'}${limits}${group(element, 'm:e')}`;
  },
  'm:d': (element) => {
    const inner = childrenNamed(element, 'm:e').map(latexOf);
    const [begin = '(', end = ')'] = [property(element, 'm:begChr'), property(element, 'm:endChr')];
    return begin + inner.join(property(element, 'm:sepChr') ?? '|') + end;
  },
  'm:m': (element) => {
    const rows = childrenNamed(element, 'm:mr').map((row) => childrenNamed(row, 'm:e').map(latexOf).join(' & '));
    return `\\begin{matrix}${rows.join(' \\\\ ')}\\end{matrix}`;
  },
  'm:eqArr': (element) => childrenNamed(element, 'm:e').map(latexOf).join(' \\\\ '),
  'm:func': (element) => `${latexOf(childAtPath(element, 'm:fName'))} ${group(element, 'm:e')}`,
  'm:limLow': (element) => `${latexOf(childAtPath(element, 'm:e'))}_${group(element, 'm:lim')}`,
  'm:limUpp': (element) => `${latexOf(childAtPath(element, 'm:e'))}^${group(element, 'm:lim')}`,
};

function part(element: XmlElement): string {
  return writers[element.name]?.(element) ?? latexOf(element);
}
