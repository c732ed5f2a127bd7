import { formatNumber, headingLevel, type NumberStyle } from '../office/numbering.ts';
import { descendants, elementsOf, type XmlElement } from '../office/xml-parts.ts';

export type OdfStyles = {
  /** Of paragraphs that are headings by nothing but their style, as the title of a document is. */
  headingLevel(styleName: string | undefined): number | null;
  /** A style of words or paragraphs that nobody sees. */
  isHiddenText(styleName: string | undefined): boolean;
  isHiddenPage(styleName: string | undefined): boolean;
  /** Begins a list, or goes on with one. */
  openList(list: XmlElement, outer: OdfList | null): OdfList;
  /** The number of the next item of a list as shown ("3.", "(b)"), or null for a bullet. */
  nextLabel(list: OdfList, item: XmlElement): string | null;
  /** The number of the next heading, or null where headings have none. */
  nextHeadingLabel(level: number): string | null;
};

export type OdfList = { styleName: string; depth: number; counts: number[] };

/** A chain of styles that is longer goes in a circle. */
const longestChain = 20;

const numberStyles: Record<string, NumberStyle> = {
  '1': 'decimal',
  A: 'upperLetter',
  a: 'lowerLetter',
  I: 'upperRoman',
  i: 'lowerRoman',
};

/** The parts `content.xml` and `styles.xml`. */
type StyledParts = { content: XmlElement; styles: XmlElement | undefined };

export function readOdfStyles({ content, styles }: StyledParts): OdfStyles {
  // Of two styles of one name the text's own counts.
  const roots = [styles, content];
  const named = (name: string) => roots.flatMap((root) => descendants(root, name));
  const parents = new Map(
    named('style:style').map(({ attributes }) => [
      attributes['style:name'] ?? '',
      attributes['style:parent-style-name'] ?? '',
    ]),
  );
  const withDisplay = (value: string) =>
    namesWith(named('style:style'), 'style:text-properties', 'text:display', value);
  const hidden = withDisplay('none');
  const shown = withDisplay('true');
  const hiddenPages = namesWith(
    named('style:style'),
    'style:drawing-page-properties',
    'presentation:visibility',
    'hidden',
  );
  const listStyles = new Map(named('text:list-style').map((style) => [style.attributes['style:name'] ?? '', style]));
  const [outline] = named('text:outline-style');
  const outlineCounts: number[] = [];
  const countsOfLists = new Map<string, number[]>();

  /** The nearest style of the chain that says something about it decides. */
  function isHiddenText(styleName: string | undefined): boolean {
    let name = styleName;
    for (let step = 0; name && step < longestChain; step += 1) {
      if (hidden.has(name)) return true;
      if (shown.has(name)) return false;
      name = parents.get(name);
    }
    return false;
  }

  return {
    // A paragraph's own style has a made name and is based on the one that was chosen.
    headingLevel: (name = '') => headingLevel(name) ?? headingLevel(parents.get(name) ?? '') ?? null,
    isHiddenText,
    isHiddenPage: (name) => name !== undefined && hiddenPages.has(name),
    openList({ attributes }, outer) {
      const styleName = attributes['text:style-name'] ?? outer?.styleName ?? '';
      if (outer) return { styleName, depth: outer.depth + 1, counts: outer.counts };
      const isContinued = attributes['text:continue-numbering'] === 'true';
      const before = attributes['text:continue-list'] ?? (isContinued ? styleName : '');
      const counts = countsOfLists.get(before) ?? [];
      countsOfLists.set(styleName, counts);
      countsOfLists.set(attributes['xml:id'] ?? '', counts);
      return { styleName, depth: 0, counts };
    },
    nextLabel: ({ styleName, depth, counts }, { attributes }) =>
      nextLabel(listStyles.get(styleName), depth, counts, attributes['text:start-value']),
    nextHeadingLabel: (level) => nextLabel(outline, level - 1, outlineCounts),
  };
}

function namesWith(styles: XmlElement[], properties: string, attribute: string, value: string): Set<string> {
  const found = styles.filter((style) =>
    elementsOf(style).some((each) => each.name === properties && each.attributes[attribute] === value),
  );
  return new Set(found.map(({ attributes }) => attributes['style:name'] ?? ''));
}

function nextLabel(style: XmlElement | undefined, depth: number, counts: number[], start?: string): string | null {
  const levels = elementsOf(style);
  const levelAt = (index: number) =>
    levels.find(({ attributes }) => attributes['text:level'] === String(index + 1))?.attributes;
  const own = levelAt(depth);
  const first = Number(start ?? own?.['text:start-value'] ?? 1);
  counts[depth] = start === undefined && counts[depth] !== undefined ? counts[depth] + 1 : first;
  counts.length = depth + 1;
  if (!own?.['style:num-format']) return null;
  const shown = Math.min(depth + 1, Number(own['text:display-levels'] ?? 1));
  const numbers = Array.from({ length: shown }, (_, index) => {
    const level = depth + 1 - shown + index;
    return formatNumber(counts[level] ?? 1, numberStyles[levelAt(level)?.['style:num-format'] ?? ''] ?? 'decimal');
  });
  return `${own['style:num-prefix'] ?? ''}${numbers.join('.')}${own['style:num-suffix'] ?? ''}`.trim();
}
