import type { NameMatch } from './name-match.ts';

/** The best passage of a document: its score orders passages of one answer. */
export type FoundText = {
  score: number;
  /** How many of the words asked for it has. */
  coverage: 'phrase' | 'all' | 'some';
};

export type FoundDocument = {
  documentId: string;
  updatedAt: Date;
  name: NameMatch | null;
  text: FoundText | null;
};

type RankedDocument = { documentId: string; rank: number };

/** More than the best of them nobody reads. */
export const maxRanked = 500;

/** A passage with more of what was asked for is above all that have less, whatever their scores. */
const leastOfText = { phrase: 2 / 3, all: 1 / 3, some: 0 };

/**
 * Names and texts in one order, best first; what was changed last comes first of what is equal. The rank is
 *
 * - 5 to 6 where the name is what was asked for;
 * - 3 to 4 where the name begins with it, or has each word of it, and the text has it too, 2 to 3 without the text;
 * - at most 1 for a text: above 2/3 for one that has the words beside each other, above 1/3 for one that has them all,
 *   and within that by its score beside the best one's; a name that has a typo in between adds 1/4.
 */
export function rankDocuments(found: readonly FoundDocument[]): RankedDocument[] {
  const best = Math.max(...found.map(({ text }) => text?.score ?? 0)) || 1;
  return found
    .map((document) => ({ ...document, rank: Math.round(rankOf(document, best) * 10_000) / 10_000 }))
    .sort((a, b) => b.rank - a.rank || b.updatedAt.getTime() - a.updatedAt.getTime() || byId(a, b))
    .slice(0, maxRanked)
    .map(({ documentId, rank }) => ({ documentId, rank }));
}

function rankOf({ name, text }: FoundDocument, best: number): number {
  const content = text === null ? 0 : leastOfText[text.coverage] + text.score / best / 3;
  if (name === 'exact') return 5 + content;
  if (name === 'beginning' || name === 'words') {
    return 2 + (text === null ? 0 : 1) + (name === 'beginning' ? 0.5 : 0) + content * 0.49;
  }
  return content + (name === 'typo' ? 0.25 : 0);
}

function byId(a: { documentId: string }, b: { documentId: string }): number {
  return a.documentId < b.documentId ? -1 : 1;
}
