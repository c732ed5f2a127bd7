import { createHash } from 'node:crypto';
import pLimit from 'p-limit';
import { appError } from '#src/errors.ts';
import type { GenerationKey, ReadableDocumentsFilter, VectorPoint, VectorStore } from '#src/ports/vector-store.ts';
import {
  createQdrantClient,
  isVectorSizeError,
  payloadFieldEqualsCondition,
  payloadFieldIsEmptyCondition,
  payloadFieldMatchesAnyCondition,
  type QdrantOptions,
  type QdrantPointSelection,
  type StoredQdrantPoint,
} from './qdrant-client.ts';

/**
 * Maximum vector components per request: about 2 MB of JSON. Qdrant rejects requests of 32 MB, and repeating a small
 * request costs little.
 */
const numbersPerRequest = 100_000;

/** Qdrant rounds similarities: that of opposite vectors can be just below −1. */
const roundingError = 1e-6;

const concurrentCounts = 8;

/**
 * Chunk vectors in Qdrant: one collection per embedding model, one tenant per organization. Points get their access
 * keys when they are published; before that, no search finds them.
 */
export function createQdrantVectorStore(options: QdrantOptions): VectorStore {
  const points = createQdrantClient(options);
  const limitCounts = pLimit(concurrentCounts);
  const collectionOf = (model: string) => points.collectionOf(nameOf(model));

  async function count(collections: readonly string[], of: GenerationKey): Promise<number> {
    const counts = collections.map((collection) => points.count(collection, generationOf(of)));
    return (await Promise.all(counts)).reduce((sum, each) => sum + each, 0);
  }

  return {
    async upsert({ orgId, model, points: written }) {
      const size = written[0]?.vector.length;
      if (size === undefined) return;
      for (const batch of batchesOf(written, Math.max(1, Math.floor(numbersPerRequest / size)))) {
        const body = batch.map(({ id, documentId, generation, vector }) => ({
          id,
          vector: [...vector],
          payload: { document_id: documentId, generation },
        }));
        // Does not replace published points: a batch may arrive late from a worker that was presumed dead.
        const onlyIf = payloadFieldIsEmptyCondition('acl');
        await checkingSize(points.upsert(collectionOf(model), { orgId, points: body, onlyIf }, size));
      }
    },

    async publish({ model, acl, retrievalSettings, ...generation }) {
      const payload = { acl, retrieval_settings: retrievalSettings };
      await points.setPayload(collectionOf(model), generationOf(generation), payload);
    },

    async search({ readable, model, vector, limit, minSimilarity, signal }) {
      const { acl, includeDocumentIds } = readable;
      if (acl.length === 0 || includeDocumentIds?.length === 0) return [];
      const nearest = { vector: [...vector], limit, scoreThreshold: minSimilarity - roundingError, signal };
      const found = await checkingSize(points.query(collectionOf(model), whereReadable(readable), nearest));
      return found
        .map(({ id, score }) => ({ chunkId: String(id), similarity: score }))
        .sort((one, other) => other.similarity - one.similarity || (one.chunkId < other.chunkId ? -1 : 1));
    },

    async fetch({ orgId, model, chunkIds }) {
      const limit = chunkIds.length;
      if (limit === 0) return new Map();
      const stored = await points.read(collectionOf(model), withIds(orgId, chunkIds), { limit, withVector: true });
      return new Map(stored.map(({ id, vector }) => [String(id), toVector(vector)]));
    },

    async findExisting({ orgId, chunkIds }) {
      const limit = chunkIds.length;
      if (limit === 0) return new Set();
      const stored = (await points.collections()).map((collection) =>
        points.read(collection, withIds(orgId, chunkIds), { limit, withVector: false }),
      );
      return new Set((await Promise.all(stored)).flat().map(({ id }) => String(id)));
    },

    async countGenerations(generations) {
      const collections = await points.collections();
      return Promise.all(generations.map((of) => limitCounts(() => count(collections, of))));
    },

    async listGenerations({ after, limit }) {
      const [last = '', offset] = after?.split(' ') ?? [];
      const [collection, following] = (await points.collections()).filter((name) => name >= last);
      if (collection === undefined) return { generations: [], next: null };
      const page = await points.list(collection, { offset: collection === last ? offset : undefined, limit });
      const nextCollection = following ?? null;
      return {
        generations: distinct(page.points.map(toKey)),
        next: page.next === null ? nextCollection : `${collection} ${page.next}`,
      };
    },

    async deleteGenerations({ orgId, documentId, from, before }) {
      const range = { ...(from !== undefined && { gte: from }), ...(before !== null && { lt: before }) };
      const must = [payloadFieldEqualsCondition('document_id', documentId), { key: 'generation', range }];
      if (from === undefined && before === null) must.pop();
      for (const collection of await points.collections()) await points.delete(collection, { orgId, must });
    },

    maintain: async () => 0,
  };
}

/** A collection's name has a hash of the model: models may differ only in characters that a name cannot have. */
function nameOf(model: string): string {
  const readable = model.replaceAll(/[^a-zA-Z0-9.-]+/g, '-').slice(0, 80);
  return `${readable}_${createHash('sha256').update(model).digest('hex').slice(0, 12)}`;
}

function generationOf({ orgId, documentId, generation }: GenerationKey): QdrantPointSelection {
  return {
    orgId,
    must: [
      payloadFieldEqualsCondition('document_id', documentId),
      payloadFieldEqualsCondition('generation', generation),
    ],
  };
}

function withIds(orgId: string, chunkIds: readonly string[]): QdrantPointSelection {
  return { orgId, must: [{ has_id: [...chunkIds] }] };
}

function whereReadable(readable: ReadableDocumentsFilter): QdrantPointSelection {
  const { orgId, acl, includeDocumentIds, excludeDocumentIds = [], retrievalSettings } = readable;
  return {
    orgId,
    must: [
      payloadFieldMatchesAnyCondition('acl', acl),
      ...(retrievalSettings === undefined
        ? []
        : [payloadFieldMatchesAnyCondition('retrieval_settings', retrievalSettings)]),
      ...(includeDocumentIds === undefined ? [] : [payloadFieldMatchesAnyCondition('document_id', includeDocumentIds)]),
    ],
    mustNot:
      excludeDocumentIds.length === 0 ? [] : [payloadFieldMatchesAnyCondition('document_id', excludeDocumentIds)],
  };
}

async function checkingSize<Result>(work: Promise<Result>): Promise<Result> {
  return work.catch((error: unknown) => {
    throw isVectorSizeError(error) ? appError('embedding_model_changed', { cause: error }) : error;
  });
}

function toKey({ payload }: StoredQdrantPoint): GenerationKey {
  const { org_id, document_id, generation } = payload ?? {};
  return { orgId: String(org_id), documentId: String(document_id), generation: Number(generation) };
}

function toVector(vector: StoredQdrantPoint['vector']): Float32Array {
  return Float32Array.from(Array.isArray(vector) ? vector : [], Number);
}

function distinct(keys: GenerationKey[]): GenerationKey[] {
  return [...new Map(keys.map((key) => [Object.values(key).join('/'), key])).values()];
}

function* batchesOf(written: readonly VectorPoint[], size: number): Generator<readonly VectorPoint[]> {
  for (let start = 0; start < written.length; start += size) yield written.slice(start, start + size);
}
