import type { Knex } from 'knex';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';
import { indexChunkWords } from '#src/adapters/postgres/chunks.ts';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { defaultRagConfig } from '#src/domain/documents/rag-config.ts';
import { contentStems } from '#src/domain/text/words.ts';

export const embeddingModel = 'test-model';

const analyze = createTextAnalyzer();

export type IndexedDocument = { orgId: string; documentId: string; generation: number; chunkIds: string[] };

/** An organization, and somebody in whose name documents are stored. */
export async function addOrganization(db: Knex): Promise<{ orgId: string; userId: string }> {
  const orgId = uuidv7();
  const userId = uuidv7();
  await db('organizations').insert({ id: orgId, name: 'Org' });
  await db('users').insert({ id: userId, email: `${userId}@example.com`, displayName: 'Ada' });
  return { orgId, userId };
}

/** A document in its active generation 1 with a chunk for each text, its words indexed as an ingestion does it. */
export async function addIndexedDocument(
  db: Knex,
  { orgId, userId }: { orgId: string; userId: string },
  texts: readonly string[],
  options: { acl?: string[]; documentId?: string } = {},
): Promise<IndexedDocument> {
  const { acl = ['user:ada'], documentId = uuidv7() } = options;
  const ragConfig = JSON.stringify(defaultRagConfig({ embeddingModel, hasReranker: false }));
  const original = { fileName: 'a.txt', sizeBytes: 1, contentSha256: documentId, blobKey: documentId };
  const of = { orgId, documentId, generation: 1 };
  await db('documents').insert({
    ...{ id: documentId, orgId, name: 'A', generation: 1, activeGeneration: 1, ragConfig, acl, ...original },
    ...{ activeEmbeddingModel: embeddingModel, createdBy: userId, updatedBy: userId },
  });
  await db('documentGenerations').insert({
    ...{ ...of, jobId: 'job', documentName: 'A', ragConfig, chunksTotal: texts.length, ...original },
  });
  return { ...of, chunkIds: await addIndexedChunks(db, of, texts) };
}

/** The chunks of a generation that is there. @returns their ids */
export async function addIndexedChunks(
  db: Knex,
  { orgId, documentId, generation }: Omit<IndexedDocument, 'chunkIds'>,
  texts: readonly string[],
): Promise<string[]> {
  const of = { orgId, documentId, generation };
  const chunks = texts.map((content, chunkIndex) => {
    const stems = contentStems(analyze(content));
    return {
      id: uuidv5(`${generation}:${chunkIndex}`, documentId),
      content,
      chunkIndex,
      stems,
      termCount: stems.length,
    };
  });
  const rest = { chunkKind: 'text', tokenCount: 1, contentOffset: 0, pageNumber: 1, textSha256: Buffer.alloc(32) };
  await db.transaction(async (trx) => {
    const rows = chunks.map(({ stems: _, ...chunk }) => ({ ...of, ...chunk, ...rest }));
    await trx.batchInsert('chunks', rows);
    const words = chunks.map(({ chunkIndex: index, stems, termCount }) => {
      const terms = new Map<string, number>();
      for (const stem of stems) terms.set(stem, (terms.get(stem) ?? 0) + 1);
      return { index, terms, termCount };
    });
    await indexChunkWords(trx, of, words);
  });
  return chunks.map((chunk) => chunk.id);
}
