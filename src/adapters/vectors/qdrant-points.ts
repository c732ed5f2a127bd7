import type { Schemas } from '@qdrant/js-client-rest';
import {
  createQdrantApi,
  isMissing,
  isWithoutIndex,
  type QdrantLimits,
  type QdrantOperation,
  type QdrantServer,
} from './qdrant-call.ts';

export type Condition = Schemas['Condition'];

/** Points of one organization that also meet these. Every field that a filter names has an index. */
export type Selection = { orgId: string; must?: Condition[]; mustNot?: Condition[] };

export type StoredPoint = Schemas['Record'];

export type QdrantOptions = QdrantServer & {
  collectionPrefix: string;
  /** Of searches and of single points: somebody waits, and words alone serve him better than a slow store. */
  searchTimeoutMs?: number;
};

/** Perhaps a person waits, and it has to end before its lease does. What takes longer is done by the sweep. */
const publishTimeoutMs = 10_000;
const readTimeoutMs = 30_000;
/** Also deletions of whole documents, and the first index over a collection that has points already. */
const writeTimeoutMs = 120_000;

const indexes = {
  org_id: { type: 'keyword', is_tenant: true },
  acl: 'keyword',
  document_id: 'keyword',
  generation: 'integer',
  retrieval_settings: 'keyword',
} as const satisfies Record<string, Schemas['PayloadFieldSchema']>;

/**
 * The only door to the server: no call gets past it without an organization, except the audit's list. Collections that
 * do not begin with our prefix are never touched, and one that is missing is empty.
 */
export function createQdrantPoints({ collectionPrefix, searchTimeoutMs = 5_000, ...server }: QdrantOptions) {
  const { api, call } = createQdrantApi(server);
  const ours = `${collectionPrefix}_`;
  const ready = new Set<string>();

  /** The indexes come before the first point: the graph of each tenant is built along them. */
  async function prepare(collection: string, size: number): Promise<void> {
    if (ready.has(collection)) return;
    const limits = { timeoutMs: writeTimeoutMs };
    const { exists } = await call(api.collectionExists, { collection_name: collection }, limits);
    if (!exists) {
      const creation = call(
        api.createCollection,
        {
          collection_name: collection,
          vectors: { size, distance: 'Cosine' },
          // One graph for each organization, none across: every search names one.
          hnsw_config: { m: 0, payload_m: 16 },
          strict_mode_config: { enabled: true, unindexed_filtering_retrieve: false, unindexed_filtering_update: false },
        },
        limits,
      );
      await creation.catch(async (error: unknown) => {
        // Another process was faster.
        const again = await call(api.collectionExists, { collection_name: collection }, limits);
        if (!again.exists) throw error;
      });
    }
    await makeIndexes(collection);
    ready.add(collection);
  }

  async function makeIndexes(collection_name: string): Promise<void> {
    for (const [field_name, field_schema] of Object.entries(indexes)) {
      const index = { collection_name, wait: true, field_name, field_schema };
      await call(api.createFieldIndex, index, { timeoutMs: writeTimeoutMs });
    }
  }

  /** A collection that is missing holds nothing. One whose maker was killed before it had its indexes gets them now. */
  async function ask<Params extends { collection_name: string }, Result, Nothing>(
    operation: QdrantOperation<Params, Result>,
    params: Params,
    nothing: Nothing,
    limits: QdrantLimits = { timeoutMs: readTimeoutMs },
  ): Promise<Result | Nothing> {
    const orNothing = (error: unknown) => {
      if (isMissing(error)) return nothing;
      throw error;
    };
    return call(operation, params, limits).catch(async (error: unknown) => {
      if (!isWithoutIndex(error)) return orNothing(error);
      await makeIndexes(params.collection_name);
      return call(operation, params, limits).catch(orNothing);
    });
  }

  return {
    collectionOf: (model: string) => `${ours}${model}`,

    /** All of ours, in the order of their names. */
    async collections(): Promise<string[]> {
      const { collections } = await call(api.getCollections, {}, { timeoutMs: readTimeoutMs });
      const names = collections.map(({ name }) => name);
      return names.filter((name) => name.startsWith(ours)).sort();
    },

    /** Points that are there already, and do not meet `onlyIf`, stay as they are. */
    async upsert(
      collection: string,
      { orgId, points, onlyIf }: { orgId: string; points: Schemas['PointStruct'][]; onlyIf: Condition },
      size: number,
    ): Promise<void> {
      requireOrganization(orgId);
      const owned = points.map((point) => ({ ...point, payload: { ...point.payload, org_id: orgId } }));
      const write = () =>
        call(
          api.upsertPoints,
          { collection_name: collection, wait: true, points: owned, update_filter: { must: [onlyIf] } },
          { timeoutMs: writeTimeoutMs },
        );
      await prepare(collection, size);
      await write().catch(async (error: unknown) => {
        if (!isMissing(error)) throw error;
        // Somebody has deleted it since.
        ready.delete(collection);
        await prepare(collection, size);
        await write();
      });
    },

    /** Nearest first; which of equals come under the limit is up to the server. */
    async query(
      collection: string,
      selection: Selection,
      nearest: { vector: number[]; limit: number; scoreThreshold: number; signal?: AbortSignal | undefined },
    ): Promise<Schemas['ScoredPoint'][]> {
      const { vector, limit, scoreThreshold, signal } = nearest;
      const search = { collection_name: collection, query: vector, filter: filterOf(selection), limit };
      const answer = await ask(
        api.queryPoints,
        { ...search, score_threshold: scoreThreshold, with_payload: false },
        { points: [] },
        { timeoutMs: searchTimeoutMs, signal },
      );
      return answer.points;
    },

    async read(
      collection: string,
      selection: Selection,
      page: { limit: number; withVector: boolean },
    ): Promise<StoredPoint[]> {
      const wanted = { limit: page.limit, with_payload: false, with_vector: page.withVector };
      const filter = filterOf(selection);
      const asked = { collection_name: collection, filter, ...wanted };
      return (await ask(api.scrollPoints, asked, { points: [] }, { timeoutMs: searchTimeoutMs })).points;
    },

    async count(collection: string, selection: Selection): Promise<number> {
      const asked = { collection_name: collection, filter: filterOf(selection), exact: true };
      return (await ask(api.countPoints, asked, { count: 0 })).count;
    },

    async setPayload(collection: string, selection: Selection, payload: Record<string, unknown>): Promise<void> {
      const change = { collection_name: collection, wait: true, filter: filterOf(selection), payload };
      await ask(api.setPayload, change, null, { timeoutMs: publishTimeoutMs });
    },

    async delete(collection: string, selection: Selection): Promise<void> {
      const deletion = { collection_name: collection, wait: true, filter: filterOf(selection) };
      await ask(api.deletePoints, deletion, null, { timeoutMs: writeTimeoutMs });
    },

    /** For the audit: what points of whatever organization say of themselves, and no more. */
    async list(
      collection: string,
      page: { offset: string | undefined; limit: number },
    ): Promise<{ points: StoredPoint[]; next: string | null }> {
      const from = { collection_name: collection, ...(page.offset !== undefined && { offset: page.offset }) };
      const wanted = { limit: page.limit, with_payload: ['org_id', 'document_id', 'generation'], with_vector: false };
      const nothing = { points: [], next_page_offset: null };
      const { points, next_page_offset: next } = await ask(api.scrollPoints, { ...from, ...wanted }, nothing);
      return { points, next: typeof next === 'string' ? next : null };
    },
  };
}

export function hasValue(key: keyof typeof indexes, value: string | number): Condition {
  return { key, match: { value } };
}

export function hasAny(key: keyof typeof indexes, values: readonly string[]): Condition {
  return { key, match: { any: [...values] } };
}

export function hasNone(key: keyof typeof indexes): Condition {
  return { is_empty: { key } };
}

function filterOf({ orgId, must = [], mustNot = [] }: Selection): Schemas['Filter'] {
  requireOrganization(orgId);
  return { must: [hasValue('org_id', orgId), ...must], must_not: mustNot };
}

/** What would be sent without one is about all organizations. */
function requireOrganization(orgId: string): void {
  if (!orgId) throw new TypeError('a call to the vector store needs an organization');
}
