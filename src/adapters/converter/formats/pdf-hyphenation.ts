import type { PdfPage } from './pdf-page.ts';

/** The words that a document writes without a cut, in lower case; compounds with their hyphens. */
export type Vocabulary = ReadonlySet<string>;

const word = /\p{L}+(?:-\p{L}+)*/gu;
/** Short words are part of many longer ones ("with-out"): as halves they say nothing. */
const tellingHalf = 4;

/** The document's own words decide about its cut words, so that no dictionary of any language is needed. */
export function collectVocabulary(pages: PdfPage[]): Vocabulary {
  const words = new Set<string>();
  const lines = pages.flatMap((page) => page.lines);
  if (!lines.some((line) => line.isHyphenated)) return words;
  lines.forEach((line, index) => {
    const found = line.text.toLowerCase().match(word) ?? [];
    const start = lines[index - 1]?.isHyphenated ? 1 : 0;
    for (const each of found.slice(start, line.isHyphenated ? -1 : undefined)) words.add(each);
  });
  return words;
}

/** What stands between the halves of a word cut at a line's end: nothing, or the hyphen of a compound. */
export function hyphenBetween(before: string, after: string, vocabulary: Vocabulary): '' | '-' {
  const first = /[\p{L}-]+$/u.exec(before)?.[0].toLowerCase() ?? '';
  const second = /^\p{L}+/u.exec(after)?.[0].toLowerCase() ?? '';
  // "COVID-" + "19", "A-" + "B": a cut goes through lower case.
  if (!/^\p{Ll}/u.test(after)) return '-';
  if (vocabulary.has(first + second)) return '';
  if (vocabulary.has(`${first}-${second}`)) return '-';
  const halves = [first, second];
  return halves.every((half) => half.length >= tellingHalf && vocabulary.has(half)) ? '-' : '';
}
