import { type Actor, keysOf } from '#src/domain/access/visibility.ts';
import { type AnalyzeText, contentStems } from '#src/domain/text/words.ts';
import type { LegSearchDeps } from './leg-search.ts';
import type { PassageHit } from './retrieval.model.ts';
import { createWordSearchRepository, type WordSearchEffort } from './word-search.repository.ts';

/**
 * Somebody types and waits, and asks again with the next letter: so much less is read of frequent words than for a
 * question that is answered once. What is beyond that is in older documents.
 */
const effort: Partial<WordSearchEffort> = { postings: 500, furthest: 1_000, candidatesPerHit: 1, documents: 100 };
const chunks = 1_000;
/** Of rare words: then documents that have but the frequent ones are not looked for. */
const enough = 50;
/** Five hundred documents, and what else the best of them say. */
const passages = 600;

/** Best first; at most five hundred documents and some. */
export function createPassageSearch(deps: Pick<LegSearchDeps, 'db' | 'inTurn'> & { analyze: AnalyzeText }) {
  const { searchPassages } = createWordSearchRepository(deps.db, effort);

  return (actor: Actor, query: string): Promise<PassageHit[]> => {
    const terms = [...new Set(contentStems(deps.analyze(query)))];
    const readable = { orgId: actor.orgId, acl: keysOf(actor) };
    return deps.inTurn.words(actor.orgId, () => searchPassages({ readable, terms, limit: chunks, enough }, passages));
  };
}
