import { formatListNumber, headingLevelByStyleName, type ListNumberStyle } from '../office/numbering.ts';
import { childXmlElements, descendantXmlElementsNamed, type XmlElement } from '../office/xml-parts.ts';

export type OdfStyles = {
  headingLevel(styleName: string | undefined): number | null;
  isHiddenText(styleName: string | undefined): boolean;
  isHiddenPage(styleName: string | undefined): boolean;
  openList(list: XmlElement, outer: OdfListState | null): OdfListState;
  nextListLabel(list: OdfListState, item: XmlElement): string | null;
  nextHeadingLabel(level: number): string | null;
};

export type OdfListState = { styleName: string; depth: number; counts: number[] };

/** Maximum style inheritance depth; anything deeper is a cycle. */
const maxStyleDepth = 20;

const numberStyles: Record<string, ListNumberStyle> = {
  '1': 'decimal',
  A: 'upperLetter',
  a: 'lowerLetter',
  I: 'upperRoman',
  i: 'lowerRoman',
};

type StyledParts = { content: XmlElement; styles: XmlElement | undefined };

export function readOdfStyles({ content, styles }: StyledParts): OdfStyles {
  // Automatic styles of content.xml override those of styles.xml with the same name.
  const roots = [styles, content];
  const named = (name: string) => roots.flatMap((root) => descendantXmlElementsNamed(root, name));
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

  function isHiddenText(styleName: string | undefined): boolean {
    let name = styleName;
    for (let step = 0; name && step < maxStyleDepth; step += 1) {
      if (hidden.has(name)) return true;
      if (shown.has(name)) return false;
      name = parents.get(name);
    }
    return false;
  }

  return {
    // Direct formatting gives a paragraph an automatic style, whose parent is the named style that the author chose.
    headingLevel: (name = '') =>
      headingLevelByStyleName(name) ?? headingLevelByStyleName(parents.get(name) ?? '') ?? null,
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
    nextListLabel: ({ styleName, depth, counts }, { attributes }) =>
      nextListLabel(listStyles.get(styleName), depth, counts, attributes['text:start-value']),
    nextHeadingLabel: (level) => nextListLabel(outline, level - 1, outlineCounts),
  };
}

function namesWith(styles: XmlElement[], properties: string, attribute: string, value: string): Set<string> {
  const found = styles.filter((style) =>
    childXmlElements(style).some((each) => each.name === properties && each.attributes[attribute] === value),
  );
  return new Set(found.map(({ attributes }) => attributes['style:name'] ?? ''));
}

function nextListLabel(style: XmlElement | undefined, depth: number, counts: number[], start?: string): string | null {
  const levels = childXmlElements(style);
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
    return formatListNumber(counts[level] ?? 1, numberStyles[levelAt(level)?.['style:num-format'] ?? ''] ?? 'decimal');
  });
  return `${own['style:num-prefix'] ?? ''}${numbers.join('.')}${own['style:num-suffix'] ?? ''}`.trim();
}
