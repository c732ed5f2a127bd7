import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import pino from 'pino';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';
import { createFairWorkQueue } from '#src/adapters/limits.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { countTerms } from '#src/domain/documents/chunk-document.ts';
import { toUnitLength } from '#src/domain/documents/embedding.ts';
import { defaultRagConfig, type RagConfig } from '#src/domain/documents/rag-config.ts';
import { contentStems } from '#src/domain/text/words.ts';
import { createChunksRepository } from '#src/modules/ingestion/chunks.repository.ts';
import { createRetrievalService, type RetrieveInput } from '#src/modules/retrieval/retrieval.service.ts';
import type { EmbedderFactory } from '#src/ports/models.ts';
import { useTestDatabase } from './services.ts';

export const embeddingModel = 'test-model';

const analyze = createTextAnalyzer();

export type IndexedDocument = { orgId: string; documentId: string; generation: number; chunkIds: string[] };
type Organization = { orgId: string; userId: string };

/** An organization, and a user in whose name documents are stored. */
export async function addOrganization(db: Knex): Promise<Organization> {
  const [orgId, userId] = [uuidv7(), uuidv7()];
  await db('organizations').insert({ id: orgId, name: 'Org' });
  await db('users').insert({ id: userId, email: `${userId}@example.com`, displayName: 'Ada' });
  return { orgId, userId };
}

/** A document in its active generation 1 with a chunk for each text, its words indexed as an ingestion does it. */
export async function addIndexedDocument(
  db: Knex,
  { orgId, userId }: Organization,
  texts: readonly string[],
  options: { acl?: string[]; documentId?: string; config?: RagConfig; language?: string } = {},
): Promise<IndexedDocument> {
  const { acl = ['user:ada'], documentId = uuidv7(), language = 'en' } = options;
  const { config = defaultRagConfig({ embeddingModel, hasReranker: false }) } = options;
  const of = { orgId, documentId, generation: 1 };
  const original = { fileName: 'a.txt', sizeBytes: 1, contentSha256: documentId, blobKey: documentId };
  const settings = { ...original, ragConfig: JSON.stringify(config) };
  const authors = { createdBy: userId, updatedBy: userId };
  const active = { generation: 1, activeGeneration: 1, activeEmbeddingModel: config.embedding.model };
  const activeLanguage = language;
  await db('documents').insert({
    id: documentId,
    orgId,
    name: 'A',
    acl,
    ...settings,
    ...authors,
    ...active,
    activeLanguage,
  });
  const built = { jobId: 'job', documentName: 'A', chunksTotal: texts.length };
  await db('documentGenerations').insert({ ...of, ...settings, ...built });
  return { ...of, chunkIds: await addIndexedChunks(db, of, texts, language) };
}

/** The chunks of a generation that is there. @returns their ids */
export async function addIndexedChunks(
  db: Knex,
  of: Omit<IndexedDocument, 'chunkIds'>,
  texts: readonly string[],
  language = 'en',
): Promise<string[]> {
  const text = { chunkKind: 'text', contextualText: '', headingPath: [], textSha256: Buffer.alloc(32) } as const;
  const chunks = texts.map((content, index) => {
    const id = uuidv5(`${of.generation}:${index}`, of.documentId);
    const place = { id, index, tokenCount: 1, contentOffset: 0, pageNumber: 1 };
    return { ...text, ...place, content, ...countTerms(content, language, analyze) };
  });
  await db.transaction((trx) => createChunksRepository(trx).insert(of, chunks));
  return chunks.map(({ id }) => id);
}

/** Texts with the same words are near each other, those of different models have nothing in common. */
export function wordVector(model: string, text: string): Float32Array {
  const vector = new Float32Array(256);
  for (const stem of ['any text', ...contentStems(analyze(text))]) {
    const place = createHash('sha1').update(`${model} ${stem}`).digest()[0] ?? 0;
    vector[place] = (vector[place] ?? 0) + 1;
  }
  return toUnitLength(vector);
}

export const wordEmbedders: EmbedderFactory = {
  of: (model) => ({ model, embed: async (texts) => texts.map((text) => wordVector(model, text)) }),
};

export const adaOf = (orgId: string): Actor => {
  return {
    userId: 'ada',
    orgId,
    isOrgAdmin: false,
    teamIds: [],
    teamAdminOf: [],
    openTeamIds: [],
    contributesToOrganization: false,
  };
};

export const question = (query: string): RetrieveInput => ({
  query,
  reranking: { isEnabled: null, type: null },
  contextTokens: null,
  signal: new AbortController().signal,
});

export type NewDocument = {
  texts: readonly string[];
  language?: string;
  acl?: string[];
  model?: string;
  retrieval?: Partial<RagConfig['retrieval']>;
  reranking?: Partial<RagConfig['reranking']>;
};

export type RetrievalFixture = ReturnType<typeof retrievalFixture>;

/** Documents of any configuration on the real Postgres, with vectors of their words. */
function retrievalFixture(db: Knex) {
  const vectors = createPgVectorStore(db);

  /** Readable for Ada unless it says for whom. */
  async function addDocument(organization: Organization, document: NewDocument): Promise<IndexedDocument> {
    const { texts, language = 'en', acl = ['user:ada'], model = 'model-a' } = document;
    const config = defaultRagConfig({ embeddingModel: model, hasReranker: false });
    const retrieval = { ...config.retrieval, ...document.retrieval };
    const reranking = { ...config.reranking, ...document.reranking };
    const options = { acl, language, config: { ...config, retrieval, reranking } };
    const added = await addIndexedDocument(db, organization, texts, options);
    const { orgId, documentId, generation } = added;
    const points = added.chunkIds.map((id, index) => {
      return { id, documentId, generation, vector: wordVector(model, texts[index] ?? '') };
    });
    await vectors.upsert({ orgId, model, points });
    return added;
  }

  /** The service on these stores; `parts` replace them. */
  const createRetrieval = (parts: Partial<Parameters<typeof createRetrievalService>[0]> = {}) =>
    createRetrievalService({
      db,
      vectors,
      embedders: wordEmbedders,
      analyze,
      rank: async (_type, { passages }) => [...passages],
      models: { reranker: async () => null, queryPrefix: async () => '', languages: async () => null },
      logger: pino({ level: 'silent' }),
      inTurn: { words: createFairWorkQueue(4), vectors: createFairWorkQueue(4) },
      ...parts,
    });
  return { db, vectors, addOrganization: () => addOrganization(db), addDocument, createRetrieval };
}

/** For a suite: one fixture for all of it, and a new organization for each test. */
export function useRetrievalFixture() {
  const own = useTestDatabase(10);
  const fixture = () => retrievalFixture(own.db);
  let organization: Organization;
  beforeEach(async () => {
    organization = await addOrganization(own.db);
  });
  const add = (document: NewDocument) => fixture().addDocument(organization, document);
  return { fixture, organization: () => organization, add };
}
