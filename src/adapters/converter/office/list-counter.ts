import { formatNumber, type NumberStyle } from './list-numbers.ts';

/** `text` is the label with `%1` for the number of the outermost level. */
export type ListLevel = { start: number; style: NumberStyle | 'bullet' | 'none'; text: string };

/** Lists may share what they have counted. */
export type CountedList = { levels: ReadonlyMap<number, ListLevel>; counts: number[] };

/** The label of the next paragraph at that level, as it is shown ("4.1", "(b)", "§ 3"); null for a bullet. */
export function nextLabel({ levels, counts }: CountedList, level: number): string | null {
  const own = levels.get(level);
  if (!own) return null;
  counts[level] = (counts[level] ?? own.start - 1) + 1;
  counts.length = level + 1;
  if (own.style === 'bullet') return null;
  const label = own.text.replace(/%([1-9])/g, (_, digit) => numberAt(levels, counts, Number(digit) - 1));
  return label.trim() || null;
}

function numberAt(levels: ReadonlyMap<number, ListLevel>, counts: readonly number[], index: number): string {
  const level = levels.get(index);
  if (!level || level.style === 'bullet' || level.style === 'none') return '';
  return formatNumber(counts[index] ?? level.start, level.style);
}
