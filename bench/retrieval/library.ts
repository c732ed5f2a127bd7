import { setTimeout as delay } from 'node:timers/promises';
import type { Knex } from 'knex';
import { newPassword } from '../../scripts/secrets.ts';
import { loadConfig } from '../../src/config.ts';
import { type Container, createContainer } from '../../src/container.ts';
import type { RequestActor } from '../../src/domain/access/visibility.ts';
import type { RagConfig, RerankerType } from '../../src/domain/documents/rag-config.ts';
import { registerBody } from '../../src/modules/auth/auth.schema.ts';
import type { VectorStore } from '../../src/ports/vector-store.ts';
import type { MeasuredProduct } from '../measured-product.ts';

export type Source = { id: string; name: string; text: string };

/** A chunk's position; `source` is the id of its text, `end` is exclusive. */
export type Passage = { source: string; start: number; end: number };

export type RagSettings = { [Part in keyof RagConfig]?: Partial<RagConfig[Part]> };

/** Documents in their own organization, ingested by the product's workers and searched by its retrieval service. */
export type Library = {
  add(sources: readonly Source[]): Promise<void>;
  configure(settings: RagSettings): Promise<void>;
  reingest(): Promise<void>;
  passages(): Promise<ReadonlyMap<string, Passage>>;
  /**
   * Ranks chunks for a question, best first, before the product selects those for the prompt. `isDegraded`: a component
   * of the retrieval timed out.
   */
  rank(query: string, reranking: RerankerType | null): Promise<{ chunkIds: string[]; isDegraded: boolean }>;
  /** The same documents with their vectors in Postgres. Both stores hold the same chunk ids, which break ties. */
  inPostgres(): Promise<Pick<Library, 'configure' | 'passages' | 'rank' | 'close'>>;
  close(): Promise<void>;
};

const parallelWrites = 8;
const pollIntervalMs = 200;
const questionTimeoutMs = 120_000;
/** A reranker that times out on a busy machine says nothing about its ranking, so the query is repeated. */
const attempts = 3;

export async function openLibrary({ environment }: Pick<MeasuredProduct, 'environment'>): Promise<Library> {
  const container = createContainer(loadConfig({ ...environment }), 'test');
  return createLibrary(container, environment, await signUp(container), new Map());
}

function createLibrary(
  container: Container,
  environment: MeasuredProduct['environment'],
  owner: RequestActor,
  sources: Map<string, Source>,
): Library {
  const { db } = container;

  /** A failed ingestion fails the benchmark, because it needs complete collections. */
  async function untilIngested(): Promise<void> {
    for (;;) {
      const unfinished = db('jobs').where({ orgId: owner.orgId, kind: 'ingest' }).whereNot({ status: 'succeeded' });
      const job: { errorCode: string | null; errorMessage: string | null } | undefined = await unfinished
        .orderBy('errorCode')
        .first();
      if (job === undefined) return;
      if (job.errorCode !== null) throw new Error(`An ingestion failed: ${job.errorCode}: ${job.errorMessage}`);
      await delay(pollIntervalMs);
    }
  }

  async function untilPublished(): Promise<void> {
    const outdated = () => db('documents').where({ orgId: owner.orgId }).whereNotNull('pointsOutdatedAt').first();
    while (await outdated()) await delay(pollIntervalMs);
  }

  return {
    async add(texts) {
      await forEach(texts, async (source) => {
        const { name, text: content } = source;
        const pasted = { name, content, sourceFormat: 'markdown', targetFolderId: undefined } as const;
        sources.set((await container.documents.paste(owner, pasted)).id, source);
      });
      await untilIngested();
    },

    async configure(settings) {
      await forEach([...sources.keys()], async (documentId) => {
        const { config: now } = await container.rag.getConfig(owner, documentId);
        const next = {
          chunking: { ...now.chunking, ...settings.chunking },
          retrieval: { ...now.retrieval, ...settings.retrieval },
          reranking: { ...now.reranking, ...settings.reranking },
          embedding: { ...now.embedding, ...settings.embedding },
        };
        await container.rag.setConfig(owner, documentId, next, null);
      });
      await untilPublished();
    },

    async reingest() {
      await forEach([...sources.keys()], (documentId) =>
        container.rag.ingest(owner, documentId, { redo: true, reservedId: crypto.randomUUID() }),
      );
      await untilIngested();
    },

    async passages() {
      const chunks: { id: string; documentId: string; contentOffset: number; content: string }[] = await db(
        'chunks as c',
      )
        .join('documents as d', { 'd.id': 'c.documentId', 'd.activeGeneration': 'c.generation' })
        .where({ 'd.orgId': owner.orgId })
        .select('c.id', 'c.documentId', 'c.contentOffset', 'c.content');
      return new Map(
        chunks.map(({ id, documentId, contentOffset: start, content }) => {
          const source = sources.get(documentId);
          const end = start + content.length;
          if (source?.text.slice(start, end) !== content)
            throw new Error(`The text at the position of a chunk of ${source?.name} is not the text of the chunk.`);
          return [id, { source: source.id, start, end }];
        }),
      );
    },

    async rank(query, reranking) {
      let answer = await ask();
      for (let attempt = 2; answer.degradations.length > 0 && attempt <= attempts; attempt += 1) answer = await ask();
      const chunkIds = answer.ranked.map(({ chunkId }) => chunkId);
      return { chunkIds, isDegraded: answer.degradations.length > 0 };

      function ask() {
        return container.retrieval.rankChunks(owner, {
          query,
          reranking: { isEnabled: reranking !== null, type: reranking },
          contextTokens: null,
          signal: AbortSignal.timeout(questionTimeoutMs),
        });
      }
    },

    async inPostgres() {
      const other = createContainer(loadConfig({ ...environment, VECTOR_STORE: 'pgvector' }), 'test');
      await forEach([...sources.keys()], (documentId) => copyVectors(db, container.vectors, other.vectors, documentId));
      return createLibrary(other, environment, owner, sources);
    },

    close: () => container.close(),
  };
}

async function copyVectors(db: Knex, from: VectorStore, to: VectorStore, documentId: string): Promise<void> {
  const { orgId, generation, model }: { orgId: string; generation: number; model: string } = await db('documents')
    .where({ id: documentId })
    .first('orgId', 'activeGeneration as generation', 'activeEmbeddingModel as model');
  const chunkIds: string[] = await db('chunks').where({ documentId, generation }).pluck('id');
  const points = Array.from(await from.fetch({ orgId, model, chunkIds }), ([id, vector]) => {
    return { id, documentId, generation, vector };
  });
  if (points.length !== chunkIds.length) throw new Error(`Some chunks of the document ${documentId} have no vector.`);
  await to.upsert({ orgId, model, points });
}

async function signUp({ auth }: Container): Promise<RequestActor> {
  const origin = { requestId: 'bench', client: { network: '127.0.0.1', userAgent: null } };
  const email = `bench-${process.hrtime.bigint()}@example.com`;
  const { account } = await auth.register(registerBody.parse({ email, password: newPassword() }), origin);
  const actor = await auth.findActor(account.userId);
  if (actor === null) throw new Error('The owner of the benchmark documents was not found.');
  return { ...actor, requestId: origin.requestId };
}

async function forEach<Item>(items: readonly Item[], run: (item: Item) => Promise<unknown>): Promise<void> {
  const waiting = items.values();
  const runner = async () => {
    for (const item of waiting) await run(item);
  };
  await Promise.all(Array.from({ length: parallelWrites }, runner));
}
