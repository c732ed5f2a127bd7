import type { Actor } from '#src/domain/access/visibility.ts';
import {
  compareByScoreThenId,
  mergeRetrievalGroups,
  type RetrievalHit,
  type RetrievalHitsOfGroup,
  unknownLanguageWeight,
} from '#src/domain/retrieval/fusion-and-reranking.ts';
import { undeterminedLanguage } from '#src/domain/text/words.ts';
import { appError } from '#src/errors.ts';
import type { ReadableDocumentsFilter } from '#src/ports/vector-store.ts';
import {
  type ChunkSearch,
  type ChunkSearchDeps,
  chooseGroupsWithOwnSearch,
  createChunkSearchRunner,
  type PlannedGroupSearch,
  planGroupSearches,
} from './leg-search.ts';
import type { RetrievalCandidate, RetrievalDegradation } from './retrieval.model.ts';
import type { ChunkSignature, RetrievalRepository } from './retrieval.repository.ts';

/** Number of merged hits that are loaded for reranking and for the final selection. */
const candidateCount = 50;
/** Factors of a vector search's limit. The search is repeated with the next one if too many hits are outdated. */
const depths = [1, 8, 64];
const deepestSearch = 4_000;
/**
 * Seconds added to a search's duration when the documents that changed meanwhile are listed: longer than a transaction
 * that moves a document between groups.
 */
const changeSeconds = 1;

/**
 * Hits of a BM25 or vector search (`found`), and those of them that Postgres confirms (`confirmed`): readable, in the
 * active generation, and with the settings that the search used.
 */
type Answer = ChunkSearch & { found: readonly RetrievalHit[]; confirmed: readonly ConfirmedHit[] };

/** `isKnownLanguage`: the embedding model of the search knows the language of the document. */
type ConfirmedHit = RetrievalHit & { rrfK: number; isKnownLanguage: boolean };

export type GroupSearchQuery = { query: string; signal: AbortSignal };

export function createGroupSearch(deps: ChunkSearchDeps & { repository: RetrievalRepository }) {
  const { repository, models } = deps;
  const startLegs = createChunkSearchRunner(deps);

  /**
   * @returns the best hits of all groups, best first. A BM25 or vector search that fails is skipped and reported as a
   * degradation.
   * @throws `service_unavailable` if all of them fail
   */
  return async (
    actor: Actor,
    documents: ReadableDocumentsFilter,
    query: GroupSearchQuery,
  ): Promise<{ candidates: RetrievalCandidate[]; degradations: RetrievalDegradation[] }> => {
    const legs = startLegs(documents, query);

    async function ask(asked: readonly ChunkSearch[]): Promise<Answer[]> {
      const found = await Promise.all(asked.map((leg) => legs.search(leg)));
      const isSilent = asked.length > 0 && found.every((hits) => hits === null);
      if (isSilent && asked[0]?.onlyDocumentIds === undefined) throw noLegAnswered(legs.degradations());
      const ids = new Set(found.flatMap((hits) => hits?.map(({ id }) => id) ?? []));
      const signatures = await repository.findSignatures(documents, [...ids]);
      const languages = new Map<string, readonly string[] | null>();
      for (const { search } of asked) {
        languages.set(search.embeddingModel, await models.languages(search.embeddingModel));
      }
      return asked.map((leg, index) => {
        const known = languages.get(leg.search.embeddingModel) ?? null;
        return confirm(leg, found[index] ?? [], signatures, known);
      });
    }

    /**
     * Searches documents again that have just changed: while a document moves from one group to another, the searches
     * of both groups may miss it.
     */
    async function askChanged(own: ReadonlySet<string>, depth: number, sinceMs: number): Promise<Answer[]> {
      const seconds = (performance.now() - sinceMs) / 1_000 + changeSeconds;
      const onlyDocumentIds = await repository.listChanged(documents, seconds);
      if (onlyDocumentIds.length === 0) return [];
      const groups = await repository.listGroups({ ...documents, includeDocumentIds: onlyDocumentIds });
      return ask(legsOf(planGroupSearches(groups, own), depth).map((leg) => ({ ...leg, onlyDocumentIds })));
    }

    async function search(depth: number): Promise<{ candidates: RetrievalCandidate[]; isIncomplete: boolean }> {
      const beganMs = performance.now();
      const groups = await repository.listGroups(documents);
      const own = await chooseGroupsWithOwnSearch(groups, () => repository.countReadable(documents));
      const answers = await ask(legsOf(planGroupSearches(groups, own), depth));
      const again = await askChanged(own, depth, beganMs);
      const isFirstSearch = depth === 1 && again.length === 0;
      const merged = mergeRetrievalGroups(groupsOf(join([...answers, ...again])), candidateCount);
      const ids = [...new Set(merged.map(({ id }) => id))];
      const loaded = new Map((await repository.loadReadable(actor, ids)).map((chunk) => [chunk.chunkId, chunk]));
      return {
        candidates: ids.flatMap((id) => loaded.get(id) ?? []),
        // The search is repeated with a higher limit if hits that the caller may no longer read, or outdated hits of
        // the vector store, may have displaced others.
        isIncomplete: loaded.size < ids.length || answers.some(isFirstSearch ? hasLostHits : couldHaveMore),
      };
    }

    let candidates: RetrievalCandidate[] = [];
    for (const depth of depths) {
      const found = await search(depth);
      candidates = found.candidates;
      if (!found.isIncomplete) break;
    }
    return { candidates, degradations: legs.degradations() };
  };
}

/** Lists the BM25 and vector searches to run. BM25 searches come first, because they need no embedding. */
function legsOf(searches: readonly PlannedGroupSearch[], depth: number): ChunkSearch[] {
  const words = searches.filter(({ settings }) => settings.mode !== 'vector');
  const semantic = searches.filter(({ settings }) => settings.mode !== 'word_match');
  return [
    ...words.map((search): ChunkSearch => {
      const limit = search.settings.wordMatchLimit;
      return { search, kind: 'words', limit, asked: limit };
    }),
    ...semantic.map((search): ChunkSearch => {
      const limit = search.settings.vectorLimit;
      return { search, kind: 'vectors', limit, asked: Math.min(depth * limit, deepestSearch) };
    }),
  ];
}

function hasLostHits({ found, confirmed }: Answer): boolean {
  return confirmed.length < found.length;
}

function couldHaveMore({ kind, limit, asked, found, confirmed }: Answer): boolean {
  return kind === 'vectors' && asked < deepestSearch && found.length === asked && confirmed.length < limit;
}

function noLegAnswered(degradations: readonly RetrievalDegradation[]) {
  const reasons = new Set(degradations.map(({ reason }) => reason));
  const missing = reasons.has('embedder_unavailable') ? 'the embedding service' : 'the vector store';
  const cause = reasons.has('word_search_unavailable')
    ? 'The word search timed out, and no other search is available.'
    : `The documents are configured for vector search only, and ${missing} does not answer.`;
  return appError('service_unavailable', { detail: `${cause} Try again in a moment.` });
}

function confirm(
  leg: ChunkSearch,
  found: readonly RetrievalHit[],
  signatures: ReadonlyMap<string, ChunkSignature>,
  knownLanguages: readonly string[] | null,
): Answer {
  const rrfKs = new Map(leg.search.groups.map(({ signature, settings }) => [signature, settings.rrfK]));
  const confirmed = found.flatMap((hit): ConfirmedHit[] => {
    const { signature = '', language = undeterminedLanguage } = signatures.get(hit.id) ?? {};
    const rrfK = rrfKs.get(signature);
    if (rrfK === undefined) return [];
    const isKnownLanguage =
      knownLanguages === null || language === undeterminedLanguage || knownLanguages.includes(language);
    return [{ ...hit, rrfK, isKnownLanguage }];
  });
  return { ...leg, found, confirmed: confirmed.slice(0, leg.limit) };
}

function join(answers: readonly Answer[]): Answer[] {
  const byLeg = Map.groupBy(answers, ({ search, kind }) => `${kind} ${search.key}`);
  return Array.from(byLeg.values()).flatMap(([first, second]) => {
    if (first === undefined || second === undefined) return first ?? [];
    const hits = new Map([...first.confirmed, ...second.confirmed].map((hit) => [hit.id, hit]));
    return { ...first, confirmed: [...hits.values()].sort(compareByScoreThenId).slice(0, first.limit) };
  });
}

function groupsOf(answers: readonly Answer[]): RetrievalHitsOfGroup[] {
  const bySearch = Map.groupBy(answers, ({ search }) => search.key);
  return Array.from(bySearch.values()).flatMap((legs) => {
    const groups = Map.groupBy(
      legs.flatMap(({ confirmed }) => confirmed),
      groupKey,
    );
    return Array.from(groups, ([key, [{ rrfK, isKnownLanguage } = { rrfK: 0, isKnownLanguage: true }]]) => ({
      rrfK,
      legs: new Map(legs.map((leg) => [nameOf(leg), leg.confirmed.filter((hit) => groupKey(hit) === key)])),
      weights: new Map(
        legs.map((leg) => [nameOf(leg), leg.kind === 'vectors' && !isKnownLanguage ? unknownLanguageWeight : 1]),
      ),
    }));
  });
}

function groupKey({ rrfK, isKnownLanguage }: ConfirmedHit): string {
  return `${rrfK} ${isKnownLanguage}`;
}

/**
 * Returns the name of the list into which hits are merged: one list for BM25, because all groups share an index, and
 * one per embedding model, because scores are comparable only within a model.
 */
function nameOf({ search, kind }: ChunkSearch): string {
  return kind === 'words' ? kind : `${kind} of ${search.embeddingModel}`;
}
