/** A stemmed word in lower case. Stop words are function words, which only phrase search needs. */
export type StemmedTerm = { stem: string; isStopWord: boolean };

/** Language code of a text whose language could not be determined (BCP 47). It is analyzed as English. */
export const undeterminedLanguage = 'und';

/**
 * Splits text into search terms.
 * @param language ISO 639-1 code of the document, which decides on stems and stop words; English by default
 */
export type TextAnalyzer = (text: string, language?: string) => StemmedTerm[];

export function contentStems(terms: readonly StemmedTerm[]): string[] {
  return terms.filter((term) => !term.isStopWord).map((term) => term.stem);
}

/** Number of stop words from which they show the language of a query: one may be a content word of another language. */
const minStopWords = 2;

/**
 * Lists the terms of a query for documents in several languages: the stems of each word in each language, without the
 * stop words of the language that has the most stop words in the query.
 */
export function queryTerms(query: string, languages: readonly string[], analyze: TextAnalyzer): string[] {
  const analyses = languages.map((language) => analyze(query, language));
  const stopWordCounts = analyses.map((terms) => terms.filter(({ isStopWord }) => isStopWord).length);
  const most = Math.max(minStopWords, ...stopWordCounts);
  const likely = analyses.filter((_, index) => stopWordCounts[index] === most);
  const found = new Set<string>();
  // Goes word by word, because the search uses only the first terms of a long query.
  for (let position = 0; position < (analyses[0]?.length ?? 0); position += 1) {
    if (likely.some((terms) => terms[position]?.isStopWord)) continue;
    for (const terms of analyses) {
      const term = terms[position];
      if (term !== undefined && !term.isStopWord) found.add(term.stem);
    }
  }
  return [...found];
}

export function quotedPhrases(query: string): string[] {
  return Array.from(query.matchAll(/["“”„]([^"“”„]+)["“”„]/gu), ([, phrase = '']) => phrase.trim()).filter(
    (phrase) => phrase !== '',
  );
}

export function containsTermPhrase(text: readonly StemmedTerm[], phrase: readonly StemmedTerm[]): boolean {
  if (phrase.length === 0) return false;
  return text.some((_, start) => phrase.every(({ stem }, offset) => text[start + offset]?.stem === stem));
}

export type TextSpan = { start: number; end: number };

/** Longer words are split, because the search index limits the length of a term. */
const maxWordLength = 64;
/** Scripts that put no spaces between words, and Hangul, whose words end in particles. */
const unspaced = /[\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}]/u;
const words = /[\p{L}\p{M}\p{N}]{1,64}/gu;
const wordsOfAllScripts =
  /(?<syllables>[[\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}]&&[\p{L}\p{M}\p{N}]]+)|(?<unsplit>[[\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}]&&[\p{L}\p{M}\p{N}]]+)|[[\p{L}\p{M}\p{N}]--[\p{scx=Hani}\p{scx=Hira}\p{scx=Kana}\p{scx=Hang}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}]]{1,64}/gv;
const segmenter = new Intl.Segmenter('th', { granularity: 'word' });

/**
 * Finds the words of a text: runs of letters, marks and digits. Chinese, Japanese and Korean text gives overlapping
 * pairs of characters, as Lucene's CJKAnalyzer does; Thai, Lao, Khmer and Burmese text is segmented by a dictionary.
 */
export function wordSpans(text: string): TextSpan[] {
  if (!unspaced.test(text)) {
    return Array.from(text.matchAll(words), ({ 0: word, index }) => ({ start: index, end: index + word.length }));
  }
  const found: TextSpan[] = [];
  for (const { 0: run, index, groups } of text.matchAll(wordsOfAllScripts)) {
    if (groups?.syllables !== undefined) found.push(...characterPairs(run, index));
    else if (groups?.unsplit !== undefined) found.push(...dictionaryWords(run, index));
    else found.push({ start: index, end: index + run.length });
  }
  return found;
}

function* characterPairs(run: string, offset: number): Generator<TextSpan> {
  let start = offset;
  let previous = '';
  for (const character of run) {
    if (previous !== '') {
      yield { start, end: start + previous.length + character.length };
      start += previous.length;
    }
    previous = character;
  }
  if (start === offset) yield { start, end: offset + run.length };
}

function* dictionaryWords(run: string, offset: number): Generator<TextSpan> {
  for (const { segment, index } of segmenter.segment(run)) {
    for (let at = 0; at < segment.length; at += maxWordLength) {
      yield { start: offset + index + at, end: offset + index + Math.min(at + maxWordLength, segment.length) };
    }
  }
}

// Begins a match only at the first full stop of a run, so that "....." does not take quadratic time.
const sentenceEnd = /(?<![.!?…])[.!?…]+["'”’»)\]*_]*\s+|[。！？｡]+["”’」』）]*\s*/g;
const abbreviation =
  /(?:^|[\s(["'“‘])(?:\p{Lu}|mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|e\.g|i\.e|cf|al|no|nos|vol|fig|figs|eq|sec|ch|pp?|inc|ltd|corp|co|dept|est|approx|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|u\.s|u\.k|a\.m|p\.m)\.$/iu;

/**
 * Splits `text.slice(start, end)` into sentences without gaps, each with its trailing white space. A full stop ends a
 * sentence unless it belongs to a known abbreviation or an initial, or a lower-case letter follows.
 */
export function splitSentences(text: string, start = 0, end = text.length): TextSpan[] {
  const found: TextSpan[] = [];
  const slice = start === 0 && end === text.length ? text : text.slice(start, end);
  let from = 0;
  for (const match of slice.matchAll(sentenceEnd)) {
    const to = match.index + match[0].length;
    if (to < slice.length && !endsSentence(slice, from, match.index, to)) continue;
    found.push({ start: start + from, end: start + to });
    from = to;
  }
  if (from < slice.length) found.push({ start: start + from, end });
  return found;
}

function endsSentence(text: string, from: number, stop: number, next: number): boolean {
  if (text.charAt(stop) !== '.') return true;
  if (/\p{Ll}/u.test(text.charAt(next))) return false;
  return !abbreviation.test(text.slice(Math.max(from, stop - 12), stop + 1));
}
