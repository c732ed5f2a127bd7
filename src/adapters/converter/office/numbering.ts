const names = [
  'heading',
  'Überschrift',
  'Titre',
  'Título',
  'Titolo',
  'Kop',
  'Rubrik',
  'Overskrift',
  'Otsikko',
  'Nagłówek',
  'Nadpis',
  'Заголовок',
  'Başlık',
  '标题',
  '見出し',
  '제목',
];
const headingName = new RegExp(`^(?:${names.join('|')}) ?([1-9])$`, 'i');

export function headingLevelByStyleName(styleName: string): number | undefined {
  if (/^title$/i.test(styleName)) return 1;
  if (/^subtitle$/i.test(styleName)) return 2;
  const digit = headingName.exec(styleName)?.[1];
  return digit === undefined ? undefined : Number(digit);
}

const letters = 'abcdefghijklmnopqrstuvwxyz';
const romans: [string, number][] = [
  ['m', 1000],
  ['cm', 900],
  ['d', 500],
  ['cd', 400],
  ['c', 100],
  ['xc', 90],
  ['l', 50],
  ['xl', 40],
  ['x', 10],
  ['ix', 9],
  ['v', 5],
  ['iv', 4],
  ['i', 1],
];

export type ListNumberStyle = 'decimal' | 'lowerLetter' | 'upperLetter' | 'lowerRoman' | 'upperRoman';

/** Formats a list number as word processors do: 28 as "28", "bb" or "xxviii". */
export function formatListNumber(value: number, style: ListNumberStyle): string {
  if (value < 1 || style === 'decimal') return String(value);
  const text = style.endsWith('Letter') ? letterNumber(value) : romanNumber(value);
  return style.startsWith('upper') ? text.toUpperCase() : text;
}

function letterNumber(value: number): string {
  const letter = letters.charAt((value - 1) % letters.length);
  return letter.repeat(Math.min(Math.ceil(value / letters.length), 9));
}

function romanNumber(value: number): string {
  let rest = Math.min(value, 3_999);
  let text = '';
  for (const [roman, worth] of romans) {
    while (rest >= worth) {
      text += roman;
      rest -= worth;
    }
  }
  return text;
}

/**
 * One level of a list. `text` is the pattern of its labels, in which `%1` stands for the number of the outermost level.
 */
export type ListLevel = { start: number; style: ListNumberStyle | 'bullet' | 'none'; text: string };

/** A list with its current numbers per level. Lists that continue each other's numbering share `counts`. */
export type NumberedList = { levels: ReadonlyMap<number, ListLevel>; counts: number[] };

/**
 * Counts the next paragraph at a list level and returns its displayed label ("4.1", "(b)", "§ 3"); null for a bullet.
 */
export function nextListLabel({ levels, counts }: NumberedList, level: number): string | null {
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
  return formatListNumber(counts[index] ?? level.start, level.style);
}
