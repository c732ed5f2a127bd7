import { paragraphBlocks, type TextBlock } from './blocks.ts';
import {
  childXmlElementAtPath,
  childXmlElements,
  childXmlElementsNamed,
  descendantXmlElementsNamed,
  readRelationships,
  readXmlPart,
  textContentOfXml,
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
  const area = childXmlElementAtPath(root, 'c:chart');
  const title = descendantXmlElementsNamed(childXmlElementAtPath(area, 'c:title'), 'a:t')
    .map(textContentOfXml)
    .join('');
  const series = descendantXmlElementsNamed(childXmlElementAtPath(area, 'c:plotArea'), 'c:ser');
  const [first] = series;
  const categories = cachedValues(childXmlElementAtPath(first, 'c:cat') ?? childXmlElementAtPath(first, 'c:xVal'));
  const columns = series.map((each) =>
    cachedValues(childXmlElementAtPath(each, 'c:val') ?? childXmlElementAtPath(each, 'c:yVal')),
  );
  const names = series.map((each) =>
    descendantXmlElementsNamed(childXmlElementAtPath(each, 'c:tx'), 'c:v').map(textContentOfXml).join(' '),
  );
  const count = Math.max(0, ...[categories, ...columns].map((values) => values.length));
  const rows = Array.from({ length: count }, (_, row) => [categories, ...columns].map((values) => values[row] ?? ''));
  const table: TextBlock[] = rows.length > 0 ? [{ kind: 'table', rows: [['', ...names], ...rows] }] : [];
  return [...paragraphBlocks(title), ...table];
}

function cachedValues(values: XmlElement | undefined): string[] {
  const found: string[] = [];
  for (const point of descendantXmlElementsNamed(values, 'c:pt')) {
    const index = Number(point.attributes.idx);
    if (index < 100_000) found[index] = textContentOfXml(childXmlElementAtPath(point, 'c:v'));
  }
  return Array.from(found, (value) => value ?? '');
}

function readDiagram(root: XmlElement): TextBlock[] {
  return childXmlElementsNamed(childXmlElementAtPath(root, 'dgm:ptLst'), 'dgm:pt').flatMap((point): TextBlock[] => {
    const text = descendantXmlElementsNamed(childXmlElementAtPath(point, 'dgm:t'), 'a:t')
      .map(textContentOfXml)
      .join('');
    return text.trim() === '' ? [] : [{ kind: 'item', depth: 0, label: null, text }];
  });
}

export function equationToLatex(element: XmlElement): string {
  return latexOf(element).replace(/\s+/g, ' ').trim();
}

function latexOf(element: XmlElement | undefined): string {
  return childXmlElements(element).map(part).join('');
}

const group = (element: XmlElement, name: string) => `{${latexOf(childXmlElementAtPath(element, name))}}`;
const property = (element: XmlElement, name: string) =>
  childXmlElementAtPath(element, `${element.name}Pr`, name)?.attributes['m:val'];

const writers: Record<string, (element: XmlElement) => string> = {
  // Invisible math operators (function application, invisible times) become spaces.
  'm:t': (element) => textContentOfXml(element).replace(/[\u2061-\u2064]/g, ' '),
  'm:f': (element) => `\\frac${group(element, 'm:num')}${group(element, 'm:den')}`,
  'm:sSup': (element) => `${latexOf(childXmlElementAtPath(element, 'm:e'))}^${group(element, 'm:sup')}`,
  'm:sSub': (element) => `${latexOf(childXmlElementAtPath(element, 'm:e'))}_${group(element, 'm:sub')}`,
  'm:sSubSup': (element) =>
    `${latexOf(childXmlElementAtPath(element, 'm:e'))}_${group(element, 'm:sub')}^${group(element, 'm:sup')}`,
  'm:rad': (element) => {
    const degree = latexOf(childXmlElementAtPath(element, 'm:deg'));
    return `\\sqrt${degree && `[${degree}]`}${group(element, 'm:e')}`;
  },
  'm:nary': (element) => {
    const [from, to] = [
      latexOf(childXmlElementAtPath(element, 'm:sub')),
      latexOf(childXmlElementAtPath(element, 'm:sup')),
    ];
    const limits = (from && `_{${from}}`) + (to && `^{${to}}`);
    return `${property(element, 'm:chr') ?? '∫'}${limits}${group(element, 'm:e')}`;
  },
  'm:d': (element) => {
    const inner = childXmlElementsNamed(element, 'm:e').map(latexOf);
    const [begin = '(', end = ')'] = [property(element, 'm:begChr'), property(element, 'm:endChr')];
    return begin + inner.join(property(element, 'm:sepChr') ?? '|') + end;
  },
  'm:m': (element) => {
    const rows = childXmlElementsNamed(element, 'm:mr').map((row) =>
      childXmlElementsNamed(row, 'm:e').map(latexOf).join(' & '),
    );
    return `\\begin{matrix}${rows.join(' \\\\ ')}\\end{matrix}`;
  },
  'm:eqArr': (element) => childXmlElementsNamed(element, 'm:e').map(latexOf).join(' \\\\ '),
  'm:func': (element) => `${latexOf(childXmlElementAtPath(element, 'm:fName'))} ${group(element, 'm:e')}`,
  'm:limLow': (element) => `${latexOf(childXmlElementAtPath(element, 'm:e'))}_${group(element, 'm:lim')}`,
  'm:limUpp': (element) => `${latexOf(childXmlElementAtPath(element, 'm:e'))}^${group(element, 'm:lim')}`,
};

function part(element: XmlElement): string {
  return writers[element.name]?.(element) ?? latexOf(element);
}
