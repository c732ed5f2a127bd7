import { type AnalyzeText, contentStems, quotedPhrases, type Term } from '#src/domain/text/words.ts';

export type SearchQuery = {
  text: string;
  /** All words, in order. */
  terms: readonly Term[];
  /** Those that carry meaning. */
  stems: ReadonlySet<string>;
  /** What stands in quotes. */
  phrases: readonly (readonly Term[])[];
};

export function readQuery(text: string, analyze: AnalyzeText): SearchQuery {
  const terms = analyze(text);
  return {
    text,
    terms,
    stems: new Set(contentStems(terms)),
    phrases: quotedPhrases(text).map((phrase) => analyze(phrase)),
  };
}
