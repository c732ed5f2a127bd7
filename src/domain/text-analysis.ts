/**
 * One word of a text. `stem` is lower-cased and stemmed; `isStopWord` marks function words, which phrases still
 * need in their places and which scoring leaves out.
 */
export type Term = { stem: string; isStopWord: boolean };

/** Splits a text into its words, in order. */
export type AnalyzeText = (text: string) => Term[];

/** The stems that carry meaning, in order and with repetitions. */
export function contentStems(terms: readonly Term[]): string[] {
  return terms.filter((term) => !term.isStopWord).map((term) => term.stem);
}
