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

export type NumberStyle = 'decimal' | 'lowerLetter' | 'upperLetter' | 'lowerRoman' | 'upperRoman';

/** 28 as "28", "bb" or "xxviii", as word processors count. */
export function formatNumber(value: number, style: NumberStyle): string {
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
