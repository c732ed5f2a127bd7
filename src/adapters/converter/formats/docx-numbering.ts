import { type CountedList, type ListLevel, nextLabel } from '../office/list-counter.ts';
import { childAt, childrenNamed, type XmlElement } from '../office/xml.ts';
import type { ListPlace } from './docx-styles.ts';

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
