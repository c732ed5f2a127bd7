import type { Knex } from 'knex';
import type { IngestDocumentInput } from '#src/contracts/ingestion.ts';
import type { RecognizedPage } from '#src/ports/documents.ts';
import { RecognizedPageModel } from './ingestion.model.ts';

/** Pages that a converter of this version has read by OCR for a generation that is not converted yet. */
export type RecognitionKey = IngestDocumentInput & { converterVersion: string };

export function createRecognizedPagesRepository(db: Knex) {
  return {
    async list({ orgId, documentId, generation, converterVersion }: RecognitionKey): Promise<RecognizedPage[]> {
      return RecognizedPageModel.table(db)
        .where({ orgId, documentId, generation, converterVersion })
        .orderBy('pageIndex')
        .select('pageIndex', 'lines');
    },

    /** The first one stays. Does nothing once the generation is gone. */
    async insert(key: RecognitionKey, { pageIndex, lines }: RecognizedPage): Promise<void> {
      await db.raw(
        `insert into recognized_pages (org_id, document_id, generation, converter_version, page_index, lines)
         select org_id, document_id, generation, :converterVersion, :pageIndex, :lines::jsonb
         from document_generations
         where org_id = :orgId and document_id = :documentId and generation = :generation
         for key share
         on conflict do nothing`,
        { ...key, pageIndex, lines: JSON.stringify(lines) },
      );
    },

    async deleteAll({ orgId, documentId, generation }: IngestDocumentInput): Promise<void> {
      await RecognizedPageModel.query(db).where({ orgId, documentId, generation }).delete();
    },
  };
}
