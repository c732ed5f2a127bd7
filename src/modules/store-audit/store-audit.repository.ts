import type { Knex } from 'knex';
import { deleteChunksOfGenerations } from '#src/adapters/postgres/chunks.ts';
import {
  bigintColumn,
  booleanColumn,
  defineRowShape,
  integerArrayColumn,
  integerColumn,
  pickColumns,
  queryFirstRow,
  queryRows,
  type SqlRow,
} from '#src/adapters/postgres/shapes.ts';
import type { StoreAuditFindingKind } from '#src/domain/documents/audit-report.ts';
import { DocumentModel } from '#src/modules/documents/documents.model.ts';
import { GenerationModel } from '#src/modules/ingestion/ingestion.model.ts';
import { JobModel } from '#src/modules/jobs/jobs.model.ts';

/** A difference between Postgres and another store. `id` is the id of a document or the blob key of an original. */
export type StoreAuditFinding = {
  kind: StoreAuditFindingKind;
  orgId: string;
  id: string;
  generation?: number;
  detail: string;
};

export type StoreInspectionPage = { checked: number; findings: StoreAuditFinding[]; next: string | null };

const activeDocument = defineRowShape({
  ...pickColumns(DocumentModel, 'orgId', 'id', 'generation', 'activeGeneration', 'blobKey').columns,
  chunksTotal: integerColumn().nullable(),
  chunks: bigintColumn(),
  firstIndex: integerColumn().nullable(),
  lastIndex: integerColumn().nullable(),
  orphanGenerations: integerArrayColumn(),
});
export type AuditedDocument = SqlRow<typeof activeDocument>;

const keptGenerations = defineRowShape({
  ...pickColumns(DocumentModel, 'orgId', 'id', 'generation', 'activeGeneration').columns,
  isSettled: booleanColumn(),
});

const pendingDeletion = defineRowShape({
  ...pickColumns(DocumentModel, 'orgId', 'id').columns,
  isLost: booleanColumn(),
});

const deletionRequest = pickColumns(JobModel, 'createdBy', 'acl', 'requestId');

type DocumentKey = Pick<SqlRow<typeof DocumentModel>, 'orgId' | 'id'>;

/** SQL condition that a document, its newest and its active generation did not change within the grace period. */
const settledFor = `greatest(d.created_at, newest.created_at, active.activated_at, d.deleted_at)
                    < now() - make_interval(secs => :graceSeconds)`;
const withGenerations = `
  left join document_generations newest on newest.document_id = d.id and newest.generation = d.generation
  left join document_generations active on active.document_id = d.id and active.generation = d.active_generation`;

export function createStoreAuditRepository(db: Knex) {
  function documents(condition: string, values: Record<string, unknown>) {
    return queryRows(
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
      const kept = await queryRows(
        db,
        keptGenerations,
        `select d.org_id, d.id, d.generation, d.active_generation, ${settledFor} as is_settled
         from documents d ${withGenerations}
         where d.id = any (:ids::uuid[])`,
        { ids: [...ids], graceSeconds },
      );
      return new Map(kept.map((row) => [`${row.orgId}/${row.id}`, row]));
    },

    /** Returns keys of blobs in use by a document, generation, preview, export, or a request's claim. */
    async findUsedBlobs(keys: readonly string[]): Promise<Set<string>> {
      const used = await queryRows(
        db,
        pickColumns(DocumentModel, 'blobKey'),
        `select blob_key from documents where blob_key = any (:keys::text[])
         union select blob_key from document_generations where blob_key = any (:keys::text[])
         union select blob_key from previews where blob_key = any (:keys::text[])
         union select blob_key from export_volumes where blob_key = any (:keys::text[])
         union select blob_key from blob_claims where blob_key = any (:keys::text[])`,
        { keys: [...keys] },
      );
      return new Set(used.map((row) => row.blobKey));
    },

    /**
     * Lists documents whose deletion is unfinished. `isLost`: no job for it is open, for longer than `graceSeconds`.
     */
    listDeletions(page: { after: string; limit: number; graceSeconds: number }) {
      return queryRows(
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

    /** Locks a document for a new ingestion. Undefined if it is deleted or already being ingested. */
    lockIngestible({ orgId, id }: DocumentKey) {
      return queryFirstRow(
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

    findDeletion({ orgId, id }: DocumentKey) {
      return queryFirstRow(
        db,
        deletionRequest,
        `select coalesce(j.created_by, d.updated_by) as created_by, coalesce(j.acl, '{}') as acl, j.request_id
         from documents d left join jobs j on j.id = 'delete-' || d.id
         where d.org_id = :orgId and d.id = :id and d.deleted_at is not null`,
        { orgId, id },
      );
    },

    /** Deletes a generation with its chunks and postings, in batches, because there may be a million rows. */
    async deleteGeneration({ orgId, id }: DocumentKey, generation: number): Promise<void> {
      const range = { orgId, documentId: id, from: generation, before: generation + 1 };
      await deleteChunksOfGenerations(db, range, (trx) =>
        GenerationModel.table(trx).where({ orgId, documentId: id, generation }).delete(),
      );
    },
  };
}
