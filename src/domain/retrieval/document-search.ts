/**
 * How a document name matches a query: `exact` (with or without file extension), `beginning` (prefix), `words` (each
 * query word is the prefix of a word of the name), or `typo` (the same with a typo in a word).
 */
export type DocumentNameMatch = 'exact' | 'beginning' | 'words' | 'typo';

export type DocumentNameQuery = {
  key: string;
  words: readonly WantedWord[];
};

type WantedWord = { word: string; typos: ReadonlySet<string> };

/** Word lengths for which typos are considered. Shorter words are too similar to each other. */
const typoLength = { min: 4, max: 24 };
/**
 * Maximum number of words of a query for which typos in names are considered; longer queries are texts and not names.
 */
const maxWordsWithTypos = 8;

const alphabets = [
  ['a', 'z'],
  ['α', 'ω'],
  ['а', 'џ'],
  ['א', 'ת'],
  ['ء', 'ي'],
].map(([first = '', last = '']) => lettersBetween(first, last));

export function toDocumentNameQuery(key: string): DocumentNameQuery {
  const words = key === '' ? [] : [...new Set(key.split(' '))];
  const withTypos = words.length <= maxWordsWithTypos;
  return { key, words: words.map((word) => ({ word, typos: new Set(withTypos ? wordsOneEditAway(word) : []) })) };
}

/** Words at Damerau–Levenshtein distance 1. Empty for short words and words with digits: numbers are no typos. */
export function wordsOneEditAway(word: string): string[] {
  const letters = Array.from(word);
  if (letters.length < typoLength.min || letters.length > typoLength.max || /\p{N}/u.test(word)) return [];
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
 * Compares a document name with a query.
 * @param name normalized name, and its extension in lower case (empty if it has none)
 * @returns null if the name does not match
 */
export function matchDocumentName(
  wanted: DocumentNameQuery,
  name: { key: string; extension: string },
): DocumentNameMatch | null {
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

export type FoundPassage = {
  score: number;
  coverage: 'phrase' | 'all' | 'some';
};

export type FoundDocument = {
  documentId: string;
  updatedAt: Date;
  name: DocumentNameMatch | null;
  text: FoundPassage | null;
};

type RankedDocument = { documentId: string; rank: number };

export const maxRankedDocuments = 500;

/**
 * Lowest rank of a text match by its coverage of the query: a match with more coverage always ranks above one with
 * less, whatever the scores.
 */
const coverageBase = { phrase: 2 / 3, all: 1 / 3, some: 0 };

/**
 * Ranks found documents by how well their names and texts match, best first; equal ranks are ordered by last change.
 * The rank is
 * - 5 to 6 if the name matches exactly;
 * - 3 to 4 if the name matches by prefix or words and the text matches too, 2 to 3 if only the name matches;
 * - at most 1 for the text: above 2/3 for a phrase, above 1/3 for all words, and within that range by score relative to
 *   the best; a name with a typo adds 1/4.
 */
export function rankDocuments(found: readonly FoundDocument[]): RankedDocument[] {
  const best = Math.max(...found.map(({ text }) => text?.score ?? 0)) || 1;
  return found
    .map((document) => ({ ...document, rank: Math.round(rankOf(document, best) * 10_000) / 10_000 }))
    .sort((a, b) => b.rank - a.rank || b.updatedAt.getTime() - a.updatedAt.getTime() || byId(a, b))
    .slice(0, maxRankedDocuments)
    .map(({ documentId, rank }) => ({ documentId, rank }));
}

function rankOf({ name, text }: FoundDocument, best: number): number {
  const content = text === null ? 0 : coverageBase[text.coverage] + text.score / best / 3;
  if (name === 'exact') return 5 + content;
  if (name === 'beginning' || name === 'words') {
    return 2 + (text === null ? 0 : 1) + (name === 'beginning' ? 0.5 : 0) + content * 0.49;
  }
  return content + (name === 'typo' ? 0.25 : 0);
}

function byId(a: { documentId: string }, b: { documentId: string }): number {
  return a.documentId < b.documentId ? -1 : 1;
}
