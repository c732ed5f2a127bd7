import type { Knex } from 'knex';
import { v5 as uuidv5, v7 as uuidv7 } from 'uuid';
import { indexChunkWords } from '../../src/adapters/postgres/chunks.ts';
import { defaultRagConfig } from '../../src/domain/documents/rag-config.ts';
import type { VectorStore } from '../../src/ports/vector-store.ts';
import type { CorpusDocument } from './corpus.ts';

export const model = 'bench-model';
const generation = 1;

export const chunkIdOf = (documentId: string, index: number): string => uuidv5(`${generation}:${index}`, documentId);

/**
 * Inserts the documents as an ingestion would, without running the workflow.
 * @returns the organization that owns them
 */
export async function loadCorpus(
  db: Knex,
  stores: readonly Pick<VectorStore, 'upsert' | 'publish'>[],
  documents: Iterable<CorpusDocument>,
): Promise<string> {
  const orgId = uuidv7();
  const userId = uuidv7();
  await db('organizations').insert({ id: orgId, name: 'Bench' });
  await db('users').insert({ id: userId, email: `${userId}@example.com`, displayName: 'Bench' });
  const ragConfig = defaultRagConfig({ embeddingModel: model, hasReranker: false });
  for (const { id: documentId, acl, chunks } of documents) {
    const ids = chunks.map((_, index) => chunkIdOf(documentId, index));
    const words = chunks.map((chunk, index) => ({
      index,
      terms: countEach(chunk.words),
      termCount: chunk.words.length,
    }));
    const retrievalSettings = await db.transaction(async (trx) => {
      const [row] = await trx('documents')
        .insert({
          ...{ id: documentId, orgId, name: `Document ${documentId}`, fileName: 'document.txt', sizeBytes: 1 },
          ...{ contentSha256: documentId, blobKey: documentId, generation, activeGeneration: generation },
          ...{ ragConfig: JSON.stringify(ragConfig), activeEmbeddingModel: model, acl },
          ...{ createdBy: userId, updatedBy: userId },
        })
        .returning<{ retrievalSettings: string }[]>('retrievalSettings');
      await trx('documentGenerations').insert({
        ...{ orgId, documentId, generation, jobId: documentId, chunksTotal: chunks.length, documentName: 'Document' },
        ...{ fileName: 'document.txt', sizeBytes: 1, contentSha256: documentId, blobKey: documentId },
        ragConfig: JSON.stringify(ragConfig),
      });
      await trx.raw(
        `insert into chunks (id, org_id, document_id, generation, chunk_index, content, chunk_kind, token_count,
                             content_offset, page_number, term_count, text_sha256)
         select id, ?, ?, ?, place - 1, content, 'text', 400, 0, 1, ?, sha256(content::bytea)
         from unnest(?::uuid[], ?::text[]) with ordinality as chunk (id, content, place)`,
        [
          orgId,
          documentId,
          generation,
          chunks[0]?.words.length ?? 0,
          ids,
          chunks.map((chunk) => chunk.words.join(' ')),
        ],
      );
      await indexChunkWords(trx, { orgId, documentId, generation }, words);
      return row?.retrievalSettings ?? '';
    });
    const points = chunks.map(({ vector }, index) => ({ id: ids[index] ?? '', documentId, generation, vector }));
    for (const vectors of stores) {
      await vectors.upsert({ orgId, model, points });
      await vectors.publish({ orgId, documentId, generation, model, acl, retrievalSettings });
    }
  }
  return orgId;
}

function countEach(words: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const word of words) counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
