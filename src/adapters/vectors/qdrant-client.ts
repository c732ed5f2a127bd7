import { QdrantClient, type Schemas } from '@qdrant/js-client-rest';
import { type AppError, appError } from '#src/errors.ts';

type Condition = Schemas['Condition'];

/**
 * Selects points of one organization. Conditions may only name fields of `payloadIndexes`, because Qdrant rejects
 * others in strict mode.
 */
export type QdrantPointSelection = { orgId: string; must?: Condition[]; mustNot?: Condition[] };

export type StoredQdrantPoint = Schemas['Record'];

export type QdrantOptions = QdrantServer & {
  collectionPrefix: string;
  /** Timeout of searches and reads. Short, because a chat answers from keyword search alone if the store is slow. */
  searchTimeoutMs?: number;
};

/**
 * Timeout of publishing points (making them visible to searches); short, because a user may wait. After a timeout, a
 * sweep publishes them later.
 */
const publishTimeoutMs = 10_000;
const readTimeoutMs = 30_000;
/** Timeout of Qdrant writes; long, because they include deletions of whole documents and building an index. */
const writeTimeoutMs = 120_000;

const payloadIndexes = {
  org_id: { type: 'keyword', is_tenant: true },
  acl: 'keyword',
  document_id: 'keyword',
  generation: 'integer',
  retrieval_settings: 'keyword',
} as const satisfies Record<string, Schemas['PayloadFieldSchema']>;

/**
 * Creates a Qdrant client that only accesses collections with the prefix `collectionPrefix` and, except for `list`,
 * points of one organization.
 */
export function createQdrantClient({ collectionPrefix, searchTimeoutMs = 5_000, ...server }: QdrantOptions) {
  const { api, call } = createQdrantApi(server);
  const ours = `${collectionPrefix}_`;
  const ready = new Set<string>();

  /** Creates payload indexes before the first point: the HNSW graph of each organization depends on them. */
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
          // One HNSW graph per organization and no global one, because every search filters by organization.
          hnsw_config: { m: 0, payload_m: 16 },
          strict_mode_config: { enabled: true, unindexed_filtering_retrieve: false, unindexed_filtering_update: false },
        },
        limits,
      );
      await creation.catch(async (error: unknown) => {
        const again = await call(api.collectionExists, { collection_name: collection }, limits);
        if (!again.exists) throw error;
      });
    }
    await createIndexes(collection);
    ready.add(collection);
  }

  async function createIndexes(collection_name: string): Promise<void> {
    for (const [field_name, field_schema] of Object.entries(payloadIndexes)) {
      const index = { collection_name, wait: true, field_name, field_schema };
      await call(api.createFieldIndex, index, { timeoutMs: writeTimeoutMs });
    }
  }

  /**
   * Returns `nothing` if the collection is missing. If payload indexes are missing because of a crash, creates them and
   * repeats the call.
   */
  async function callOrNothing<Params extends { collection_name: string }, Result, Nothing>(
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
      await createIndexes(params.collection_name);
      return call(operation, params, limits).catch(orNothing);
    });
  }

  return {
    collectionOf: (model: string) => `${ours}${model}`,

    async collections(): Promise<string[]> {
      const { collections } = await call(api.getCollections, {}, { timeoutMs: readTimeoutMs });
      const names = collections.map(({ name }) => name);
      return names.filter((name) => name.startsWith(ours)).sort();
    },

    /** Writes points. Replaces an existing point only if it meets `onlyIf`. */
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
        ready.delete(collection);
        await prepare(collection, size);
        await write();
      });
    },

    /** Returns the nearest points first. Which of equally near points are within the limit is up to Qdrant. */
    async query(
      collection: string,
      selection: QdrantPointSelection,
      nearest: { vector: number[]; limit: number; scoreThreshold: number; signal?: AbortSignal | undefined },
    ): Promise<Schemas['ScoredPoint'][]> {
      const { vector, limit, scoreThreshold, signal } = nearest;
      const search = { collection_name: collection, query: vector, filter: filterOf(selection), limit };
      const answer = await callOrNothing(
        api.queryPoints,
        { ...search, score_threshold: scoreThreshold, with_payload: false },
        { points: [] },
        { timeoutMs: searchTimeoutMs, signal },
      );
      return answer.points;
    },

    async read(
      collection: string,
      selection: QdrantPointSelection,
      page: { limit: number; withVector: boolean },
    ): Promise<StoredQdrantPoint[]> {
      const wanted = { limit: page.limit, with_payload: false, with_vector: page.withVector };
      const filter = filterOf(selection);
      const asked = { collection_name: collection, filter, ...wanted };
      return (await callOrNothing(api.scrollPoints, asked, { points: [] }, { timeoutMs: searchTimeoutMs })).points;
    },

    async count(collection: string, selection: QdrantPointSelection): Promise<number> {
      const asked = { collection_name: collection, filter: filterOf(selection), exact: true };
      return (await callOrNothing(api.countPoints, asked, { count: 0 })).count;
    },

    async setPayload(
      collection: string,
      selection: QdrantPointSelection,
      payload: Record<string, unknown>,
    ): Promise<void> {
      const change = { collection_name: collection, wait: true, filter: filterOf(selection), payload };
      await callOrNothing(api.setPayload, change, null, { timeoutMs: publishTimeoutMs });
    },

    async delete(collection: string, selection: QdrantPointSelection): Promise<void> {
      const deletion = { collection_name: collection, wait: true, filter: filterOf(selection) };
      await callOrNothing(api.deletePoints, deletion, null, { timeoutMs: writeTimeoutMs });
    },

    /** Lists points of all organizations with their document and generation, for the store audit. */
    async list(
      collection: string,
      page: { offset: string | undefined; limit: number },
    ): Promise<{ points: StoredQdrantPoint[]; next: string | null }> {
      const from = { collection_name: collection, ...(page.offset !== undefined && { offset: page.offset }) };
      const wanted = { limit: page.limit, with_payload: ['org_id', 'document_id', 'generation'], with_vector: false };
      const nothing = { points: [], next_page_offset: null };
      const { points, next_page_offset: next } = await callOrNothing(api.scrollPoints, { ...from, ...wanted }, nothing);
      return { points, next: typeof next === 'string' ? next : null };
    },
  };
}

export function payloadFieldEqualsCondition(key: keyof typeof payloadIndexes, value: string | number): Condition {
  return { key, match: { value } };
}

export function payloadFieldMatchesAnyCondition(
  key: keyof typeof payloadIndexes,
  values: readonly string[],
): Condition {
  return { key, match: { any: [...values] } };
}

export function payloadFieldIsEmptyCondition(key: keyof typeof payloadIndexes): Condition {
  return { is_empty: { key } };
}

function filterOf({ orgId, must = [], mustNot = [] }: QdrantPointSelection): Schemas['Filter'] {
  requireOrganization(orgId);
  return { must: [payloadFieldEqualsCondition('org_id', orgId), ...must], must_not: mustNot };
}

/** A filter without an organization would match the points of all organizations. */
function requireOrganization(orgId: string): void {
  if (!orgId) throw new TypeError('A vector store call has no organization id.');
}

type QdrantServer = { url: string; apiKey: string | null };

type QdrantApi = ReturnType<QdrantClient['api']>;

type QdrantOperation<Params, Result> = (params: Params, init?: RequestInit) => Promise<{ data: { result?: Result } }>;

type QdrantLimits = { timeoutMs: number; signal?: AbortSignal | undefined };

type QdrantCall = <Params, Result>(
  operation: QdrantOperation<Params, Result>,
  params: Params,
  limits: QdrantLimits,
) => Promise<Result>;

function createQdrantApi({ url, apiKey }: QdrantServer): { api: QdrantApi; call: QdrantCall } {
  const { protocol, origin, pathname, port } = new URL(url);
  const client = new QdrantClient({
    url: origin,
    // Path and port are set explicitly, because the client drops paths and defaults to port 6333.
    prefix: pathname.replace(/\/$/, ''),
    port: Number(port || (protocol === 'https:' ? 443 : 80)),
    // The API key is a header, because the client's option `apiKey` prints a console warning for http URLs.
    ...(apiKey !== null && { headers: { 'api-key': apiKey } }),
    // Disables the timeout of the Qdrant client, because it would replace the abort signal of a call.
    timeout: Number.POSITIVE_INFINITY,
    checkCompatibility: false,
  });
  const toAppError = createQdrantErrors(apiKey);

  return {
    api: client.api(),
    call: async (operation, params, { timeoutMs, signal }) => {
      const timeout = AbortSignal.timeout(timeoutMs);
      try {
        const { data } = await operation(params, {
          signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
        });
        if (data.result === undefined) throw new TypeError('The response of Qdrant has no result.');
        return data.result;
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        throw toAppError(error);
      }
    },
  };
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && statusOf(error.cause) === 404;
}

/** True if Qdrant rejected a filter because a field in it has no index (Qdrant's strict mode). */
function isWithoutIndex(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error && /index required/i.test(error.cause.message);
}

export function isVectorSizeError(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error && /dimension/i.test(error.cause.message);
}

class QdrantError extends Error {
  override readonly name = 'QdrantError';
  readonly status: number | undefined;

  constructor(message: string, status: number | undefined) {
    super(message);
    this.status = status;
  }
}

/**
 * Maps errors of Qdrant: a rejected key, 408, 429, 5xx and network errors become `service_unavailable`, which is
 * retried; other 4xx become `internal_error`. Removes `apiKey` from causes.
 */
function createQdrantErrors(apiKey: string | null): (error: unknown) => AppError {
  const mask = (text: string) => (apiKey === null ? text : text.replaceAll(apiKey, '[key]'));
  return (error) => {
    const status = statusOf(error);
    const cause = new QdrantError(mask(wordsOf(error)).slice(0, 1_000), status);
    if (status === 401 || status === 403) {
      const detail = 'The vector store rejects the API key (QDRANT_API_KEY). Contact the operator.';
      return appError('service_unavailable', { detail, cause });
    }
    if (status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 429) {
      return appError('internal_error', { cause });
    }
    const detail = isTimeout(error) ? 'The vector store did not answer in time.' : 'The vector store is not reachable.';
    return appError('service_unavailable', { detail, cause });
  };
}

function statusOf(error: unknown): number | undefined {
  if (!(error instanceof Error && 'status' in error)) return undefined;
  return typeof error.status === 'number' ? error.status : undefined;
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === 'TimeoutError';
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const words =
    'data' in error ? `${statusOf(error)} ${JSON.stringify(error.data)}` : `${error.name}: ${error.message}`;
  return error.cause === undefined ? words : `${words} (${wordsOf(error.cause)})`;
}
