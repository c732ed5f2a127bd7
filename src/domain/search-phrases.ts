import type { Term } from './text-analysis.ts';

/** What stands in quotes, straight or curly; an open quote is none. */
export function quotedPhrases(query: string): string[] {
  return Array.from(query.matchAll(/["“”„]([^"“”„]+)["“”„]/gu), ([, phrase = '']) => phrase.trim()).filter(
    (phrase) => phrase !== '',
  );
}

/** Does the text have these words one after the other? Inflections count as the same word. */
export function hasPhrase(text: readonly Term[], phrase: readonly Term[]): boolean {
  if (phrase.length === 0) return false;
  return text.some((_, start) => phrase.every(({ stem }, place) => text[start + place]?.stem === stem));
}
