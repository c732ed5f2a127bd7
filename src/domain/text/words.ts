/** A stemmed word in lower case. Stop words are function words, which only phrase search needs. */
export type StemmedTerm = { stem: string; isStopWord: boolean };

export type TextAnalyzer = (text: string) => StemmedTerm[];

export function contentStems(terms: readonly StemmedTerm[]): string[] {
  return terms.filter((term) => !term.isStopWord).map((term) => term.stem);
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
