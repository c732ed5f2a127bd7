import type { Knex } from 'knex';
import { deleteChunksOfGenerations, deleteIndexedChunks } from '#src/adapters/postgres/chunks.ts';
import { defineRowShape, queryRows, textColumn } from '#src/adapters/postgres/shapes.ts';
import type { DeleteDocumentInput } from '#src/contracts/deletion.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';

const original = defineRowShape({ blobKey: textColumn() });

export function createDeletionRepository(db: Knex) {
  const allGenerationsOf = ({ orgId, documentId }: DeleteDocumentInput) => ({
    orgId,
    documentId,
    from: 0,
    before: null,
  });

  return {
    /**
     * Deletes a batch of a document's chunks. Returns the hashes of their texts; null if the document has no chunks
     * left.
     */
    deleteChunks(of: DeleteDocumentInput): Promise<Buffer[] | null> {
      return db.transaction((trx) => deleteIndexedChunks(trx, allGenerationsOf(of)));
    },

    async listBlobKeys(of: DeleteDocumentInput): Promise<string[]> {
      const found = await queryRows(
        db,
        original,
        `select blob_key from documents where org_id = :orgId and id = :documentId
         union
         select blob_key from document_generations where org_id = :orgId and document_id = :documentId`,
        of,
      );
      return found.map(({ blobKey }) => blobKey);
    },

    async deleteGenerations(of: DeleteDocumentInput): Promise<void> {
      await deleteChunksOfGenerations(db, allGenerationsOf(of), (trx) =>
        trx.raw(
          `with contents as (
           select content_sha256 from documents where org_id = :orgId and id = :documentId
           union
           select content_sha256 from document_generations where org_id = :orgId and document_id = :documentId
         ),
         own as (
           delete from document_generations where org_id = :orgId and document_id = :documentId
         )
         delete from conversions c
         where c.org_id = :orgId and c.content_sha256 in (select content_sha256 from contents)
           and not exists (
             select from document_generations g
             where g.org_id = c.org_id and g.content_sha256 = c.content_sha256 and g.document_id <> :documentId
           )`,
          of,
        ),
      );
    },

    /**
     * Deletes a document's row. Foreign keys delete its links and rows that a late ingestion activity has written
     * meanwhile.
     */
    async deleteDocument(of: DeleteDocumentInput): Promise<void> {
      await DocumentModel.table(db).where({ orgId: of.orgId, id: of.documentId }).whereNotNull('deletedAt').delete();
    },
  };
}
