import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import { createDatabase } from '#src/adapters/postgres/database.ts';
import { defaultRagConfig } from '#src/domain/documents/rag-config.ts';
import type { PublishedGeneration, VectorStore } from '#src/ports/vector-store.ts';
import { createTestDatabase } from './services.ts';

export const testModel = 'test-model';

export type NewDocument = {
  orgId: string;
  vectors: readonly Float32Array[];
  acl?: string[];
  model?: string;
  /** Of the points; the document's active one is 1. */
  generation?: number;
  rrfK?: number;
  isPublished?: boolean;
};

export type StoredDocument = PublishedGeneration & { chunkIds: string[] };

/**
 * Documents as the product keeps them, so that one suite runs on every store: in Postgres a search joins their rows,
 * elsewhere it lives by what was published.
 */
export type VectorFixture = {
  db: Knex;
  addOrganization(): Promise<string>;
  addDocument(vectors: VectorStore, document: NewDocument): Promise<StoredDocument>;
  /** Changes the row and publishes what it is now. */
  change(
    vectors: VectorStore,
    document: StoredDocument,
    to: { acl?: string[]; rrfK?: number },
  ): Promise<StoredDocument>;
  close(): Promise<void>;
};

export async function createVectorFixture(): Promise<VectorFixture> {
  const database = await createTestDatabase();
  const db = createDatabase({ url: database.url, maxConnections: 5, applicationName: 'test' });
  const userId = uuidv7();
  await db('users').insert({ id: userId, email: 'ada@example.com', displayName: 'Ada' });

  const configOf = (model: string, rrfK: number) => {
    const config = defaultRagConfig({ embeddingModel: model, hasReranker: false });
    return JSON.stringify({ ...config, retrieval: { ...config.retrieval, rrfK } });
  };

  return {
    db,
    addOrganization: async () => {
      const id = uuidv7();
      await db('organizations').insert({ id, name: 'Org' });
      return id;
    },

    addDocument: async (vectors, document) => {
      const { orgId, acl = ['user:ada'], model = testModel, generation = 1, rrfK = 60 } = document;
      const documentId = uuidv7();
      const [row] = await db('documents')
        .insert({
          ...{ id: documentId, orgId, acl, generation: 1, activeGeneration: 1, activeEmbeddingModel: model },
          ...{ name: 'Doc', fileName: 'doc.txt', sizeBytes: 1, contentSha256: 'x', blobKey: 'x' },
          ...{ ragConfig: configOf(model, rrfK), createdBy: userId, updatedBy: userId },
        })
        .returning<{ retrievalSettings: string }[]>('retrievalSettings');
      const points = document.vectors.map((vector) => ({ id: uuidv7(), documentId, generation, vector }));
      await vectors.upsert({ orgId, model, points });
      const retrievalSettings = row?.retrievalSettings ?? '';
      const published = { orgId, documentId, generation, model, acl, retrievalSettings };
      if (document.isPublished !== false) await vectors.publish(published);
      return { ...published, chunkIds: points.map((point) => point.id) };
    },

    change: async (vectors, document, { acl = [...document.acl], rrfK = 60 }) => {
      const [row] = await db('documents')
        .where({ id: document.documentId })
        .update({ acl, ragConfig: configOf(document.model, rrfK) })
        .returning<{ retrievalSettings: string }[]>('retrievalSettings');
      const changed = { ...document, acl, retrievalSettings: row?.retrievalSettings ?? '' };
      const { chunkIds, ...published } = changed;
      await vectors.publish(published);
      return { ...published, chunkIds };
    },

    close: async () => {
      await db.destroy();
      await database.drop();
    },
  };
}
