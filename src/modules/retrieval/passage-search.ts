import { type Actor, keysOf } from '#src/domain/access/visibility.ts';
import { type AnalyzeText, contentStems } from '#src/domain/text/words.ts';
import type { LegSearchDeps } from './leg-search.ts';
import type { PassageHit } from './retrieval.model.ts';
import { createWordSearchRepository, type WordSearchEffort } from './word-search.repository.ts';

/**
 * Users search while they type, so less is read for frequent words than for a question. What is skipped is in older
 * documents.
 */
const effort: Partial<WordSearchEffort> = { postings: 500, furthest: 1_000, candidatesPerHit: 1, documents: 100 };
const chunks = 1_000;
/** With this many hits of rare words, documents with only the frequent words are not searched. */
const enough = 50;
/** Five hundred documents, and further passages of the best of them. */
const passages = 600;

/** Finds passages by words, best first, in slightly more than five hundred documents at most. */
export function createPassageSearch(deps: Pick<LegSearchDeps, 'db' | 'inTurn'> & { analyze: AnalyzeText }) {
  const { searchPassages } = createWordSearchRepository(deps.db, effort);

  return (actor: Actor, query: string): Promise<PassageHit[]> => {
    const terms = [...new Set(contentStems(deps.analyze(query)))];
    const readable = { orgId: actor.orgId, acl: keysOf(actor) };
    return deps.inTurn.words(actor.orgId, () => searchPassages({ readable, terms, limit: chunks, enough }, passages));
  };
}
