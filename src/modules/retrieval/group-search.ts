import { type LegHit, mergeGroups, type RetrievalGroup } from '#src/domain/merge-groups.ts';
import { type Actor, keysOf } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { ReadableDocuments } from '#src/ports/vector-store.ts';
import { inParallel } from './in-parallel.ts';
import { createLegSearch, type Leg, type LegSearchDeps } from './leg-search.ts';
import type { Candidate, DocumentGroup, RetrievalDegradation } from './retrieval.model.ts';
import { createRetrievalRepository } from './retrieval.repository.ts';

/** A query leaves connections for the others. */
const searchesAtOnce = 8;
/** How many merged hits are loaded, for a reranker and for the final choice. */
const candidateCount = 50;
/** How many times its limit a vector search is asked for, as long as too many of the hits are of the past. */
const depths = [1, 8, 64];
const deepestSearch = 4_000;
/** More than the transaction takes that brings a document to another group: it counts from its beginning. */
const changeSeconds = 1;

export type GroupQuery = {
  query: string;
  includeDocumentIds?: readonly string[] | undefined;
  excludeDocumentIds?: readonly string[] | undefined;
  signal: AbortSignal;
};

/** What a leg found, and what of that Postgres confirms: readable now, active, and of the settings searched by. */
type Answer = Leg & { found: readonly LegHit[]; confirmed: readonly LegHit[] };

/** Searches documents of mixed configurations, each group of them by its own settings, into one order. */
export function createGroupSearch(deps: LegSearchDeps) {
  const repository = createRetrievalRepository(deps.db);
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

    async function searchLegs(depth: number, onlyDocumentIds?: readonly string[]): Promise<Answer[]> {
      const groups = await repository.listGroups({
        ...documents,
        ...(onlyDocumentIds && { includeDocumentIds: onlyDocumentIds }),
      });
      const asked = await inParallel(searchesAtOnce, legsOf(groups, depth), async (leg) => {
        return { ...leg, found: await legs.search({ ...leg, onlyDocumentIds }) };
      });
      if (asked.length > 0 && asked.every(({ found }) => found === null) && onlyDocumentIds === undefined) {
        throw nothingAnswers(legs.degradations());
      }
      const ids = new Set(asked.flatMap(({ found }) => found?.map(({ id }) => id) ?? []));
      const signatures = await repository.findSignatures(actor, [...ids]);
      return asked.map((leg) => {
        const found = leg.found ?? [];
        const confirmed = found.filter(({ id }) => signatures.get(id) === leg.group.signature);
        return { ...leg, found, confirmed: confirmed.slice(0, leg.limit) };
      });
    }

    async function search(depth: number): Promise<{ candidates: Candidate[]; lacksSome: boolean }> {
      const beganMs = performance.now();
      const answers = await searchLegs(depth);
      // One that went from a group to another between their searches was found in neither.
      const changed = await repository.listChanged(documents, (performance.now() - beganMs) / 1_000 + changeSeconds);
      const again = changed.length === 0 ? [] : await searchLegs(depth, changed);
      const isFirstLook = depth === 1 && changed.length === 0;
      const merged = mergeGroups(groupsOf(joined([...answers, ...again])), candidateCount);
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
function legsOf(groups: readonly DocumentGroup[], depth: number): Leg[] {
  const words = groups.filter(({ settings }) => settings.mode !== 'vector');
  const meaning = groups.filter(({ settings }) => settings.mode !== 'word_match');
  return [
    ...words.map((group): Leg => {
      const limit = group.settings.wordMatchLimit;
      return { group, kind: 'words', limit, asked: limit };
    }),
    ...meaning.map((group): Leg => {
      const limit = group.settings.vectorLimit;
      return { group, kind: 'vectors', limit, asked: Math.min(depth * limit, deepestSearch) };
    }),
  ];
}

/** What a second look found stands beside what the first one did, each hit once. */
function joined(answers: readonly Answer[]): Answer[] {
  const byLeg = Map.groupBy(answers, ({ group, kind }) => `${kind} ${group.signature}`);
  return Array.from(byLeg.values()).flatMap(([first, second]) => {
    if (first === undefined || second === undefined) return first ?? [];
    const hits = new Map([...first.confirmed, ...second.confirmed].map((hit) => [hit.id, hit]));
    const inOrder = [...hits.values()].sort((a, b) => b.score - a.score || (a.id < b.id ? -1 : 1));
    return { ...first, confirmed: inOrder.slice(0, first.limit) };
  });
}

function groupsOf(answers: readonly Answer[]): RetrievalGroup[] {
  const byGroup = Map.groupBy(answers, ({ group }) => group);
  return Array.from(byGroup, ([{ settings }, legs]) => ({
    rrfK: settings.rrfK,
    legs: new Map(legs.map((leg) => [nameOf(leg), leg.confirmed])),
  }));
}

/** Scores of words are of one index, similarities of one model: these are the legs that groups share. */
function nameOf({ group, kind }: Leg): string {
  return kind === 'words' ? kind : `${kind} of ${group.embeddingModel}`;
}

function hasLostSome({ found, confirmed }: Answer): boolean {
  return confirmed.length < found.length;
}

function couldHaveMore({ kind, limit, asked, found, confirmed }: Answer): boolean {
  return kind === 'vectors' && asked < deepestSearch && found.length === asked && confirmed.length < limit;
}

function nothingAnswers(degradations: readonly RetrievalDegradation[]) {
  const isEmbedder = degradations.some(({ reason }) => reason === 'embedder_unavailable');
  const missing = isEmbedder ? 'the embedding service' : 'the vector store';
  return appError('service_unavailable', {
    detail: `The documents are set to be found by their vectors only, and ${missing} does not answer. Ask again in a moment.`,
  });
}
