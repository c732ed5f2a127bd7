/**
 * One word of a text. `stem` is in lower case and stemmed. `isStopWord` marks function words: phrase search needs them,
 * scoring ignores them.
 */
export type Term = { stem: string; isStopWord: boolean };

/** Splits a text into its words, in order. */
export type AnalyzeText = (text: string) => Term[];

/** @returns the stems without stop words, in order and with repetitions */
export function contentStems(terms: readonly Term[]): string[] {
  return terms.filter((term) => !term.isStopWord).map((term) => term.stem);
}

/** @returns the phrases in straight or curly quotes; an unclosed quote is ignored */
export function quotedPhrases(query: string): string[] {
  return Array.from(query.matchAll(/["“”„]([^"“”„]+)["“”„]/gu), ([, phrase = '']) => phrase.trim()).filter(
    (phrase) => phrase !== '',
  );
}

/** Whether the text contains the phrase, comparing stems. */
export function hasPhrase(text: readonly Term[], phrase: readonly Term[]): boolean {
  if (phrase.length === 0) return false;
  return text.some((_, start) => phrase.every(({ stem }, offset) => text[start + offset]?.stem === stem));
}
