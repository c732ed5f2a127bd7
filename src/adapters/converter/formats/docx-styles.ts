import { headingLevelByStyleName, type ListLevel, type NumberedList, nextListLabel } from '../office/numbering.ts';
import { childXmlElementAtPath, childXmlElementsNamed, type XmlElement } from '../office/xml-parts.ts';

/** Maximum style inheritance depth; anything deeper is a cycle. */
const maxStyleDepth = 20;
const bodyTextOutlineLevel = 9;

type ListPosition = { listId: string; level: number };

export type DocxStyle = {
  headingLevel: number | null;
  list: ListPosition | null;
  isHidden: boolean;
};

export type DocxStyles = {
  of(styleId: string): DocxStyle;
  isHiddenByDefault: boolean;
};

export function readDocxStyles(root: XmlElement | undefined): DocxStyles {
  const written = childXmlElementsNamed(root, 'w:style');
  const styles = new Map(written.map((style) => [style.attributes['w:styleId'] ?? '', style]));
  const usual = written.find(({ attributes }) => attributes['w:type'] === 'paragraph' && isOn(attributes['w:default']));
  if (usual) styles.set('', usual);
  const known = new Map<string, DocxStyle>();

  function firstInChain<Value>(styleId: string, read: (style: XmlElement) => Value | undefined): Value | undefined {
    let style = styles.get(styleId);
    for (let step = 0; style && step < maxStyleDepth; step += 1) {
      const value = read(style);
      if (value !== undefined) return value;
      style = styles.get(childXmlElementAtPath(style, 'w:basedOn')?.attributes['w:val'] ?? '');
    }
    return undefined;
  }

  return {
    of(styleId) {
      const before = known.get(styleId);
      if (before) return before;
      const level = styles.has(styleId) ? firstInChain(styleId, levelOfStyle) : headingLevelByStyleName(styleId);
      const list = firstInChain(styleId, (style) => readDocxListPosition(childXmlElementAtPath(style, 'w:pPr')));
      const isHidden = firstInChain(styleId, readDocxHiddenFlag) ?? false;
      const style = { headingLevel: level ?? null, list: list ?? null, isHidden };
      known.set(styleId, style);
      return style;
    },
    isHiddenByDefault: readDocxHiddenFlag(childXmlElementAtPath(root, 'w:docDefaults', 'w:rPrDefault')) ?? false,
  };
}

export function readDocxHiddenFlag(element: XmlElement | undefined): boolean | undefined {
  const vanish = childXmlElementAtPath(element, 'w:rPr', 'w:vanish');
  return vanish && isOn(vanish.attributes['w:val'] ?? '1');
}

function isOn(value: string | undefined): boolean {
  return value !== undefined && !/^(?:0|false|off)$/.test(value);
}

function levelOfStyle(style: XmlElement): number | null | undefined {
  return (
    headingLevelByStyleName(childXmlElementAtPath(style, 'w:name')?.attributes['w:val'] ?? '') ??
    readDocxHeadingLevel(childXmlElementAtPath(style, 'w:pPr'))
  );
}

/**
 * The heading level that paragraph or style properties set: null means explicitly body text, undefined means not set.
 */
export function readDocxHeadingLevel(properties: XmlElement | undefined): number | null | undefined {
  const value = childXmlElementAtPath(properties, 'w:outlineLvl')?.attributes['w:val'];
  if (value === undefined) return undefined;
  return Number(value) < bodyTextOutlineLevel ? Number(value) + 1 : null;
}

/** List and level of paragraph properties: null removes the paragraph from its style's list; undefined: not set. */
export function readDocxListPosition(properties: XmlElement | undefined): ListPosition | null | undefined {
  const numbering = childXmlElementAtPath(properties, 'w:numPr');
  const listId = childXmlElementAtPath(numbering, 'w:numId')?.attributes['w:val'];
  if (listId === undefined) return undefined;
  return listId === '0'
    ? null
    : { listId, level: Number(childXmlElementAtPath(numbering, 'w:ilvl')?.attributes['w:val'] ?? 0) };
}

const numberStyles: Record<string, ListLevel['style']> = {
  bullet: 'bullet',
  lowerLetter: 'lowerLetter',
  lowerRoman: 'lowerRoman',
  none: 'none',
  upperLetter: 'upperLetter',
  upperRoman: 'upperRoman',
};

export type DocxListNumbering = (position: ListPosition) => string | null;

/** Counts list numbers as Word does: a .docx file stores only rules, and readers cite laws and contracts by number. */
export function createDocxListNumbering(root: XmlElement | undefined): DocxListNumbering {
  const abstracts = childXmlElementsNamed(root, 'w:abstractNum');
  const lists = new Map<string, NumberedList>();
  const shared = new Map<string, number[]>();
  for (const list of childXmlElementsNamed(root, 'w:num')) {
    const abstractId = childXmlElementAtPath(list, 'w:abstractNumId')?.attributes['w:val'] ?? '';
    const abstract = withStyleLink(abstracts, abstractId);
    const levels = new Map(childXmlElementsNamed(abstract, 'w:lvl').map(readLevel));
    const overrides = childXmlElementsNamed(list, 'w:lvlOverride');
    for (const override of overrides) overrideLevel(levels, override);
    // Lists with the same abstract definition continue each other's numbering, unless a list overrides the start value.
    const counts = overrides.length > 0 ? [] : (shared.get(abstractId) ?? []);
    if (overrides.length === 0) shared.set(abstractId, counts);
    lists.set(list.attributes['w:numId'] ?? '', { levels, counts });
  }

  return ({ listId, level }) => {
    const list = lists.get(listId);
    return list ? nextListLabel(list, level) : null;
  };
}

function withStyleLink(abstracts: XmlElement[], id: string): XmlElement | undefined {
  const abstract = abstracts.find((each) => each.attributes['w:abstractNumId'] === id);
  const link = childXmlElementAtPath(abstract, 'w:numStyleLink')?.attributes['w:val'];
  if (link === undefined) return abstract;
  return abstracts.find((each) => childXmlElementAtPath(each, 'w:styleLink')?.attributes['w:val'] === link);
}

function readLevel(level: XmlElement): [number, ListLevel] {
  const value = (name: string) => childXmlElementAtPath(level, name)?.attributes['w:val'];
  const style = numberStyles[value('w:numFmt') ?? ''] ?? 'decimal';
  const start = Number(value('w:start') ?? 1);
  return [Number(level.attributes['w:ilvl'] ?? 0), { start, style, text: value('w:lvlText') ?? '' }];
}

function overrideLevel(levels: Map<number, ListLevel>, override: XmlElement): void {
  const index = Number(override.attributes['w:ilvl'] ?? 0);
  const level = childXmlElementAtPath(override, 'w:lvl');
  if (level) levels.set(...readLevel(level));
  const start = childXmlElementAtPath(override, 'w:startOverride')?.attributes['w:val'];
  const own = levels.get(index);
  if (own && start !== undefined) levels.set(index, { ...own, start: Number(start) });
}
