import { stemmer } from 'stemmer';
import type { StemmedTerm, TextAnalyzer } from '#src/domain/text/words.ts';

const stopWords: ReadonlySet<string> = new Set(
  `a about above after again against all am an and any are aren as at be because been before being below between both
  but by can cannot could couldn did didn do does doesn doing don down during each few for from further had hadn has
  hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself just let ll m
  me more most mustn my myself no nor not now of off on once only or other ought our ours ourselves out over own re s
  same shan she should shouldn so some such t than that the their theirs them themselves then there these they this
  those through to too under until up ve very was wasn we were weren what when where which while who whom why will with
  won would wouldn you your yours yourself yourselves d`.split(/\s+/),
);

/** Matches words. Longer ones are split after 64 characters, because the search index limits the length of a term. */
const words = /[\p{L}\p{M}\p{N}]{1,64}/gu;
const maxMemoizedWords = 100_000;

/** Splits text into search terms: letters, marks and digits (NFKC, lower case). Stop words and stems are English. */
export function createTextAnalyzer(): TextAnalyzer {
  const memo = new Map<string, StemmedTerm>();

  function termOf(word: string): StemmedTerm {
    const known = memo.get(word);
    if (known) return known;
    const term = { stem: stemmer(word), isStopWord: stopWords.has(word) };
    if (memo.size >= maxMemoizedWords) memo.clear();
    memo.set(word, term);
    return term;
  }

  return (text) => Array.from(text.normalize('NFKC').toLowerCase().matchAll(words), ([word]) => termOf(word));
}
