/**
 * How a name answers what was asked for: it is that, with or without its extension; it begins so; each word asked for
 * begins one of its words; or the same but for a typo in a word.
 */
export type NameMatch = 'exact' | 'beginning' | 'words' | 'typo';

/** What is looked for in names, as the database normalizes them: words with one space between them. */
export type WantedName = {
  key: string;
  words: readonly WantedWord[];
};

/** `typos` are the words that it may have been meant for. */
type WantedWord = { word: string; typos: ReadonlySet<string> };

/** Shorter words are too near to each other, and nobody types longer ones. */
const mistyped = { min: 4, max: 24 };
/** More words are a text, and no name that somebody remembers. */
const maxWordsWithTypos = 8;

/** Letters without accents, which keys have not. */
const alphabets = [
  ['a', 'z'],
  ['α', 'ω'],
  ['а', 'џ'],
  ['א', 'ת'],
  ['ء', 'ي'],
].map(([first = '', last = '']) => lettersBetween(first, last));

export function wantedName(key: string): WantedName {
  const words = key === '' ? [] : [...new Set(key.split(' '))];
  const withTypos = words.length <= maxWordsWithTypos;
  return { key, words: words.map((word) => ({ word, typos: new Set(withTypos ? oneEditAway(word) : []) })) };
}

/**
 * The words that differ by one letter that is missing, too many, another, or in the place of its neighbour (Damerau
 * 1964), as far as their letters are of the word's own alphabets. None for short words, and for numbers: another number
 * is no typo.
 */
export function oneEditAway(word: string): string[] {
  const letters = Array.from(word);
  if (letters.length < mistyped.min || letters.length > mistyped.max || /\p{N}/u.test(word)) return [];
  const alphabet = alphabets.filter((known) => letters.some((letter) => known.includes(letter))).flat();
  const found = new Set<string>();
  for (let at = 0; at <= letters.length; at += 1) {
    const before = letters.slice(0, at).join('');
    const [letter = '', next = '', ...rest] = letters.slice(at);
    const after = next + rest.join('');
    for (const other of alphabet) {
      found.add(before + other + letter + after);
      if (letter !== '') found.add(before + other + after);
    }
    if (letter !== '') found.add(before + after);
    if (next !== '') found.add(before + next + letter + rest.join(''));
  }
  found.delete(word);
  return [...found];
}

/**
 * @param name its key, and its extension in lower case (empty when it has none)
 * @returns null when it does not answer
 */
export function matchName(wanted: WantedName, name: { key: string; extension: string }): NameMatch | null {
  const { key, words } = wanted;
  if (words.length === 0) return null;
  if (name.key === key || (name.extension !== '' && name.key === `${key} ${name.extension}`)) return 'exact';
  if (name.key.startsWith(key)) return 'beginning';
  const own = name.key.split(' ');
  const begins = ({ word }: WantedWord) => own.some((candidate) => candidate.startsWith(word));
  if (words.every(begins)) return 'words';
  const isMeant = (word: WantedWord) => begins(word) || own.some((candidate) => word.typos.has(candidate));
  return words.every(isMeant) ? 'typo' : null;
}

function lettersBetween(first: string, last: string): string[] {
  const [from = 0, to = 0] = [first.codePointAt(0), last.codePointAt(0)];
  return Array.from({ length: to - from + 1 }, (_, index) => String.fromCodePoint(from + index));
}
