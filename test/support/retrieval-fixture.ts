import { createHash } from 'node:crypto';
import pino from 'pino';
import { createFairWorkQueue } from '#src/adapters/limits.ts';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createPgVectorStore } from '#src/adapters/vectors/pgvector.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { toUnitLength } from '#src/domain/documents/embedding.ts';
import { defaultRagConfig, type RagConfig } from '#src/domain/documents/rag-config.ts';
import { contentStems } from '#src/domain/text/words.ts';
import { createRetrievalService, type RetrieveInput } from '#src/modules/retrieval/retrieval.service.ts';
import type { EmbedderFactory } from '#src/ports/models.ts';
import { addIndexedDocument, addOrganization, type IndexedDocument } from './indexed-documents.ts';
import { createTestDatabase } from './services.ts';

type RetrievalDeps = Parameters<typeof createRetrievalService>[0];
type Organization = Awaited<ReturnType<typeof addOrganization>>;

export type NewDocument = {
  texts: readonly string[];
  acl?: string[];
  model?: string;
  retrieval?: Partial<RagConfig['retrieval']>;
  reranking?: Partial<RagConfig['reranking']>;
};

/** Documents of any configuration on the real Postgres, with vectors that anybody can work out. */
export type RetrievalFixture = Awaited<ReturnType<typeof createRetrievalFixture>>;

const analyze = createTextAnalyzer();

export const wordEmbedders: EmbedderFactory = {
  of: (model) => ({ model, embed: async (texts) => texts.map((text) => wordVector(model, text)) }),
};

/** Texts with the same words are near each other, those of different models have nothing in common. */
export function wordVector(model: string, text: string): Float32Array {
  const vector = new Float32Array(256);
  for (const stem of ['any text', ...contentStems(analyze(text))]) {
    const place = createHash('sha1').update(`${model} ${stem}`).digest()[0] ?? 0;
    vector[place] = (vector[place] ?? 0) + 1;
  }
  return toUnitLength(vector);
}

export const adaOf = (orgId: string): Actor => {
  return { userId: 'ada', orgId, isOrgAdmin: false, teamIds: [], teamAdminOf: [], openTeamIds: [] };
};

export const question = (query: string): RetrieveInput => ({
  query,
  reranking: { isEnabled: null, type: null },
  contextTokens: null,
  signal: new AbortController().signal,
});

async function createRetrievalFixture() {
  const database = await createTestDatabase();
  const db = createDatabase({ url: database.url, maxConnections: 10, applicationName: 'test' });
  const vectors = createPgVectorStore(db);
  return {
    db,
    vectors,
    addOrganization: () => addOrganization(db),

    /** Readable for Ada where it does not say for whom. */
    async addDocument(
      organization: Organization,
      { texts, acl = ['user:ada'], model = 'model-a', ...settings }: NewDocument,
    ): Promise<IndexedDocument> {
      const config = defaultRagConfig({ embeddingModel: model, hasReranker: false });
      const retrieval = { ...config.retrieval, ...settings.retrieval };
      const ragConfig = { ...config, retrieval, reranking: { ...config.reranking, ...settings.reranking } };
      const document = await addIndexedDocument(db, organization, texts, { acl });
      const { orgId, documentId, generation, chunkIds } = document;
      await db('documents')
        .where({ id: documentId })
        .update({ ragConfig: JSON.stringify(ragConfig), activeEmbeddingModel: model });
      const vectorOf = (index: number) => wordVector(model, texts[index] ?? '');
      const points = chunkIds.map((id, index) => ({ id, documentId, generation, vector: vectorOf(index) }));
      await vectors.upsert({ orgId, model, points });
      return document;
    },

    /** The service on the fixture's stores; what is given takes their place. */
    createRetrieval: (parts: Partial<RetrievalDeps> = {}) =>
      createRetrievalService({
        db,
        vectors,
        embedders: wordEmbedders,
        analyze,
        rank: async (_type, { passages }) => [...passages],
        models: { reranker: async () => null, queryPrefix: async () => '' },
        logger: pino({ level: 'silent' }),
        inTurn: { words: createFairWorkQueue(4), vectors: createFairWorkQueue(4) },
        ...parts,
      }),

    close: async () => {
      await db.destroy();
      await database.drop();
    },
  };
}

/** For a suite: one fixture for all of it, and a new organization for each test. */
export function useRetrievalFixture() {
  let fixture: RetrievalFixture;
  let organization: Organization;
  before(async () => {
    fixture = await createRetrievalFixture();
  });
  after(() => fixture.close());
  beforeEach(async () => {
    organization = await fixture.addOrganization();
  });
  return {
    fixture: () => fixture,
    organization: () => organization,
    add: (document: NewDocument) => fixture.addDocument(organization, document),
  };
}
