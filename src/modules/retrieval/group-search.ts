import { type Actor, keysOf } from '#src/domain/access/visibility.ts';
import { mergeGroups } from '#src/domain/retrieval/fusion.ts';
import { appError } from '#src/errors.ts';
import type { ReadableDocuments } from '#src/ports/vector-store.ts';
import { type Answer, confirm, groupsOf, join } from './answers.ts';
import { createLegSearch, type Leg, type LegSearchDeps } from './leg-search.ts';
import type { Candidate, RetrievalDegradation } from './retrieval.model.ts';
import type { RetrievalRepository } from './retrieval.repository.ts';
import { chooseOwnSearches, planSearches, type Search } from './search-plan.ts';

/** How many merged hits are loaded, for a reranker and for the final choice. */
const candidateCount = 50;
/** How many times its limit a vector search is asked for, as long as too many of the hits are of the past. */
const depths = [1, 8, 64];
const deepestSearch = 4_000;
/** More than the transaction takes that brings a document to another group, from the change to the commit. */
const changeSeconds = 1;

export type GroupQuery = {
  query: string;
  includeDocumentIds?: readonly string[] | undefined;
  excludeDocumentIds?: readonly string[] | undefined;
  signal: AbortSignal;
};

/** Searches documents of mixed configurations, each group of them by its own settings, into one order. */
export function createGroupSearch(deps: LegSearchDeps & { repository: RetrievalRepository }) {
  const { repository } = deps;
  const startLegs = createLegSearch(deps);

  /**
   * The best hits of all groups, best first. A leg that cannot answer is left out, and the reason given; when none
   * can, this throws `service_unavailable`.
   */
  return async (
    actor: Actor,
    query: GroupQuery,
  ): Promise<{ candidates: Candidate[]; degradations: RetrievalDegradation[] }> => {
    const documents = readableDocuments(actor, query);
    const legs = startLegs(documents, query);

    async function ask(asked: readonly Leg[]): Promise<Answer[]> {
      const found = await Promise.all(asked.map((leg) => legs.search(leg)));
      const isSilent = asked.length > 0 && found.every((hits) => hits === null);
      if (isSilent && asked[0]?.onlyDocumentIds === undefined) throw nothingAnswers(legs.degradations());
      const ids = new Set(found.flatMap((hits) => hits?.map(({ id }) => id) ?? []));
      const signatures = await repository.findSignatures(actor, [...ids]);
      return asked.map((leg, index) => confirm(leg, found[index] ?? [], signatures));
    }

    /** One that went from a group to another between their searches was found in neither. */
    async function askOfChanged(own: ReadonlySet<string>, depth: number, sinceMs: number): Promise<Answer[]> {
      const seconds = (performance.now() - sinceMs) / 1_000 + changeSeconds;
      const onlyDocumentIds = await repository.listChanged(documents, seconds);
      if (onlyDocumentIds.length === 0) return [];
      const groups = await repository.listGroups({ ...documents, includeDocumentIds: onlyDocumentIds });
      return ask(legsOf(planSearches(groups, own), depth).map((leg) => ({ ...leg, onlyDocumentIds })));
    }

    async function search(depth: number): Promise<{ candidates: Candidate[]; lacksSome: boolean }> {
      const beganMs = performance.now();
      const groups = await repository.listGroups(documents);
      const own = await chooseOwnSearches(groups, () => repository.countReadable(documents));
      const answers = await ask(legsOf(planSearches(groups, own), depth));
      const again = await askOfChanged(own, depth, beganMs);
      const isFirstLook = depth === 1 && again.length === 0;
      const merged = mergeGroups(groupsOf(join([...answers, ...again])), candidateCount);
      const ids = [...new Set(merged.map(({ id }) => id))];
      const loaded = new Map((await repository.loadReadable(actor, ids)).map((chunk) => [chunk.chunkId, chunk]));
      return {
        candidates: ids.flatMap((id) => loaded.get(id) ?? []),
        // What was taken away since it was confirmed, or what a store that is behind gave, may have kept others out.
        lacksSome: loaded.size < ids.length || answers.some(isFirstLook ? hasLostSome : couldHaveMore),
      };
    }

    let candidates: Candidate[] = [];
    for (const depth of depths) {
      const found = await search(depth);
      candidates = found.candidates;
      if (!found.lacksSome) break;
    }
    return { candidates, degradations: legs.degradations() };
  };
}

function readableDocuments(actor: Actor, { includeDocumentIds, excludeDocumentIds }: GroupQuery): ReadableDocuments {
  return {
    orgId: actor.orgId,
    acl: keysOf(actor),
    ...(includeDocumentIds && { includeDocumentIds }),
    ...(excludeDocumentIds && { excludeDocumentIds }),
  };
}

/** Words first: they need not wait for an embedding. */
function legsOf(searches: readonly Search[], depth: number): Leg[] {
  const words = searches.filter(({ settings }) => settings.mode !== 'vector');
  const meaning = searches.filter(({ settings }) => settings.mode !== 'word_match');
  return [
    ...words.map((search): Leg => {
      const limit = search.settings.wordMatchLimit;
      return { search, kind: 'words', limit, asked: limit };
    }),
    ...meaning.map((search): Leg => {
      const limit = search.settings.vectorLimit;
      return { search, kind: 'vectors', limit, asked: Math.min(depth * limit, deepestSearch) };
    }),
  ];
}

function hasLostSome({ found, confirmed }: Answer): boolean {
  return confirmed.length < found.length;
}

function couldHaveMore({ kind, limit, asked, found, confirmed }: Answer): boolean {
  return kind === 'vectors' && asked < deepestSearch && found.length === asked && confirmed.length < limit;
}

function nothingAnswers(degradations: readonly RetrievalDegradation[]) {
  const reasons = new Set(degradations.map(({ reason }) => reason));
  const missing = reasons.has('embedder_unavailable') ? 'the embedding service' : 'the vector store';
  const why = reasons.has('word_search_unavailable')
    ? 'The search by words takes too long, and nothing else answers.'
    : `The documents are set to be found by their vectors only, and ${missing} does not answer.`;
  return appError('service_unavailable', { detail: `${why} Ask again in a moment.` });
}
