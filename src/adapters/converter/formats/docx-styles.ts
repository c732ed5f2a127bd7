import { type CountedList, headingLevel, type ListLevel, nextLabel } from '../office/numbering.ts';
import { childAt, childrenNamed, type XmlElement } from '../office/xml-parts.ts';

/** A chain of styles that is longer goes in a circle. */
const longestChain = 20;
/** The level of an outline that means text. */
const noOutline = 9;

type ListPlace = { listId: string; level: number };

export type DocxStyle = {
  /** 1 is the outermost. */
  headingLevel: number | null;
  list: ListPlace | null;
  isHidden: boolean;
};

export type DocxStyles = {
  /** What a style, by its id, says about the paragraphs or words that have it; '' is that of paragraphs with none. */
  of(styleId: string): DocxStyle;
  /** Whether words are, of which neither they nor their styles say anything. */
  areHidden: boolean;
};

export function readStyles(root: XmlElement | undefined): DocxStyles {
  const written = childrenNamed(root, 'w:style');
  const styles = new Map(written.map((style) => [style.attributes['w:styleId'] ?? '', style]));
  const usual = written.find(({ attributes }) => attributes['w:type'] === 'paragraph' && isOn(attributes['w:default']));
  if (usual) styles.set('', usual);
  const known = new Map<string, DocxStyle>();

  /** The nearest style of the chain that says something about it decides. */
  function firstInChain<Value>(styleId: string, read: (style: XmlElement) => Value | undefined): Value | undefined {
    let style = styles.get(styleId);
    for (let step = 0; style && step < longestChain; step += 1) {
      const value = read(style);
      if (value !== undefined) return value;
      style = styles.get(childAt(style, 'w:basedOn')?.attributes['w:val'] ?? '');
    }
    return undefined;
  }

  return {
    of(styleId) {
      const before = known.get(styleId);
      if (before) return before;
      const level = styles.has(styleId) ? firstInChain(styleId, levelOfStyle) : headingLevel(styleId);
      const list = firstInChain(styleId, (style) => listPlace(childAt(style, 'w:pPr')));
      const isHidden = firstInChain(styleId, saysHidden) ?? false;
      const style = { headingLevel: level ?? null, list: list ?? null, isHidden };
      known.set(styleId, style);
      return style;
    },
    areHidden: saysHidden(childAt(root, 'w:docDefaults', 'w:rPrDefault')) ?? false,
  };
}

/** What a run or a style says about its words; undefined is nothing. */
export function saysHidden(element: XmlElement | undefined): boolean | undefined {
  const vanish = childAt(element, 'w:rPr', 'w:vanish');
  return vanish && isOn(vanish.attributes['w:val'] ?? '1');
}

function isOn(value: string | undefined): boolean {
  return value !== undefined && !/^(?:0|false|off)$/.test(value);
}

function levelOfStyle(style: XmlElement): number | null | undefined {
  return headingLevel(childAt(style, 'w:name')?.attributes['w:val'] ?? '') ?? outlineLevel(childAt(style, 'w:pPr'));
}

/** What the properties of a paragraph or style say: null is text for sure, undefined nothing. */
export function outlineLevel(properties: XmlElement | undefined): number | null | undefined {
  const value = childAt(properties, 'w:outlineLvl')?.attributes['w:val'];
  if (value === undefined) return undefined;
  return Number(value) < noOutline ? Number(value) + 1 : null;
}

/** The list that properties put a paragraph into; null takes it out of the list of its style. */
export function listPlace(properties: XmlElement | undefined): ListPlace | null | undefined {
  const numbering = childAt(properties, 'w:numPr');
  const listId = childAt(numbering, 'w:numId')?.attributes['w:val'];
  if (listId === undefined) return undefined;
  return listId === '0' ? null : { listId, level: Number(childAt(numbering, 'w:ilvl')?.attributes['w:val'] ?? 0) };
}

const numberStyles: Record<string, ListLevel['style']> = {
  bullet: 'bullet',
  lowerLetter: 'lowerLetter',
  lowerRoman: 'lowerRoman',
  none: 'none',
  upperLetter: 'upperLetter',
  upperRoman: 'upperRoman',
};

/** The number of the next paragraph at that place, as Word shows it ("4.1", "(b)", "§ 3"); null for a bullet. */
export type NextNumber = (place: ListPlace) => string | null;

/** Word stores no numbers: contracts and laws name their parts by what is counted here. */
export function createNumbering(root: XmlElement | undefined): NextNumber {
  const abstracts = childrenNamed(root, 'w:abstractNum');
  const lists = new Map<string, CountedList>();
  const shared = new Map<string, number[]>();
  for (const list of childrenNamed(root, 'w:num')) {
    const abstractId = childAt(list, 'w:abstractNumId')?.attributes['w:val'] ?? '';
    const abstract = withStyleLink(abstracts, abstractId);
    const levels = new Map(childrenNamed(abstract, 'w:lvl').map(readLevel));
    const overrides = childrenNamed(list, 'w:lvlOverride');
    for (const override of overrides) overrideLevel(levels, override);
    // Lists of one kind go on counting where another one stopped, unless they say where they start.
    const counts = overrides.length > 0 ? [] : (shared.get(abstractId) ?? []);
    if (overrides.length === 0) shared.set(abstractId, counts);
    lists.set(list.attributes['w:numId'] ?? '', { levels, counts });
  }

  return ({ listId, level }) => {
    const list = lists.get(listId);
    return list ? nextLabel(list, level) : null;
  };
}

function withStyleLink(abstracts: XmlElement[], id: string): XmlElement | undefined {
  const abstract = abstracts.find((each) => each.attributes['w:abstractNumId'] === id);
  const link = childAt(abstract, 'w:numStyleLink')?.attributes['w:val'];
  if (link === undefined) return abstract;
  return abstracts.find((each) => childAt(each, 'w:styleLink')?.attributes['w:val'] === link);
}

function readLevel(level: XmlElement): [number, ListLevel] {
  const value = (name: string) => childAt(level, name)?.attributes['w:val'];
  const style = numberStyles[value('w:numFmt') ?? ''] ?? 'decimal';
  const start = Number(value('w:start') ?? 1);
  return [Number(level.attributes['w:ilvl'] ?? 0), { start, style, text: value('w:lvlText') ?? '' }];
}

function overrideLevel(levels: Map<number, ListLevel>, override: XmlElement): void {
  const index = Number(override.attributes['w:ilvl'] ?? 0);
  const level = childAt(override, 'w:lvl');
  if (level) levels.set(...readLevel(level));
  const start = childAt(override, 'w:startOverride')?.attributes['w:val'];
  const own = levels.get(index);
  if (own && start !== undefined) levels.set(index, { ...own, start: Number(start) });
}
