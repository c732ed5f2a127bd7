import type { Row } from '#src/adapters/postgres/columns.ts';
import { firstRow, pick, rows } from '#src/adapters/postgres/shapes.ts';
import { deleteGenerationsWith } from '#src/adapters/postgres/word-index.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { GenerationModel } from '#src/modules/ingestion/ingestion.model.ts';
import type { Db } from '#src/ports/database.ts';
import { activeDocument, deletionRequest, keptGenerations, pendingDeletion } from './store-audit.model.ts';

type DocumentKey = Pick<Row<typeof DocumentModel>, 'orgId' | 'id'>;

/** When a document last changed which generations it needs. */
const settledFor = `greatest(d.created_at, newest.created_at, active.activated_at, d.deleted_at)
                    < now() - make_interval(secs => :graceSeconds)`;
const withGenerations = `
  left join document_generations newest on newest.document_id = d.id and newest.generation = d.generation
  left join document_generations active on active.document_id = d.id and active.generation = d.active_generation`;

export function createStoreAuditRepository(db: Db) {
  function documents(condition: string, values: Record<string, unknown>) {
    return rows(
      db,
      activeDocument,
      `select d.org_id, d.id, d.generation, d.active_generation, d.blob_key, active.chunks_total,
              c.chunks, c.first_index, c.last_index,
              array(
                select old.generation from document_generations old
                where old.document_id = d.id and old.generation <> d.generation
                  and old.generation is distinct from d.active_generation and ${settledFor}
              ) as orphan_generations
       from documents d ${withGenerations}
       cross join lateral (
         select count(*) as chunks, min(chunk_index) as first_index, max(chunk_index) as last_index
         from chunks where document_id = d.id and generation = d.active_generation
       ) c
       where d.deleted_at is null and ${condition}`,
      values,
    );
  }

  return {
    /** In the order of the vector store. */
    listDocuments(page: { after: DocumentKey; limit: number; graceSeconds: number }) {
      const { after, ...values } = page;
      return documents('(d.org_id, d.id) > (:orgId::uuid, :id::uuid) order by d.org_id, d.id limit :limit', {
        ...after,
        ...values,
      });
    },

    async findDocument({ orgId, id }: DocumentKey) {
      const [row] = await documents('d.org_id = :orgId and d.id = :id', { orgId, id, graceSeconds: 0 });
      return row;
    },

    async findKeptGenerations(ids: readonly string[], graceSeconds: number) {
      const kept = await rows(
        db,
        keptGenerations,
        `select d.org_id, d.id, d.generation, d.active_generation, ${settledFor} as is_settled
         from documents d ${withGenerations}
         where d.id = any (:ids::uuid[])`,
        { ids: [...ids], graceSeconds },
      );
      return new Map(kept.map((row) => [`${row.orgId}/${row.id}`, row]));
    },

    /** Of these keys, those that a document, a preview, a volume of an export or a generation is made from, or is about to be. */
    async findUsedBlobs(keys: readonly string[]): Promise<Set<string>> {
      const used = await rows(
        db,
        pick(DocumentModel, 'blobKey'),
        `select blob_key from documents where blob_key = any (:keys::text[])
         union select blob_key from document_generations where blob_key = any (:keys::text[])
         union select blob_key from previews where blob_key = any (:keys::text[])
         union select blob_key from export_volumes where blob_key = any (:keys::text[])
         union select blob_key from blob_claims where blob_key = any (:keys::text[])`,
        { keys: [...keys] },
      );
      return new Set(used.map((row) => row.blobKey));
    },

    /** Lost: nobody works on it, and its request or the end of its run is long enough ago. */
    listDeletions(page: { after: string; limit: number; graceSeconds: number }) {
      return rows(
        db,
        pendingDeletion,
        `select d.org_id, d.id,
                (j.id is null or j.finished_at is not null)
                  and greatest(d.deleted_at, j.finished_at) < now() - make_interval(secs => :graceSeconds) as is_lost
         from documents d
         left join jobs j on j.id = 'delete-' || d.id
         where d.deleted_at is not null and d.id > :after::uuid
         order by d.id limit :limit`,
        page,
      );
    },

    /** Held until the end of the transaction; none when another generation is on its way, or when it is deleted. */
    lockIngestible({ orgId, id }: DocumentKey) {
      return firstRow(
        db,
        DocumentModel,
        `select d.* from documents d
         where d.org_id = :orgId and d.id = :id and d.deleted_at is null and not exists (
           select from jobs j
           where j.id = 'ingest-' || d.id || '-' || d.generation and j.finished_at is null
         )
         for update of d`,
        { orgId, id },
      );
    },

    /** What the job of a deletion is made from, when it has to be made again. */
    findDeletion({ orgId, id }: DocumentKey) {
      return firstRow(
        db,
        deletionRequest,
        `select coalesce(j.created_by, d.updated_by) as created_by, coalesce(j.acl, '{}') as acl, j.request_id
         from documents d left join jobs j on j.id = 'delete-' || d.id
         where d.org_id = :orgId and d.id = :id and d.deleted_at is not null`,
        { orgId, id },
      );
    },

    /** With its chunks and postings, which may be a million rows: a part at a time. */
    async deleteGeneration({ orgId, id }: DocumentKey, generation: number): Promise<void> {
      const range = { orgId, documentId: id, from: generation, before: generation + 1 };
      await deleteGenerationsWith(db, range, (trx) =>
        GenerationModel.table(trx).where({ orgId, documentId: id, generation }).delete(),
      );
    },
  };
}
