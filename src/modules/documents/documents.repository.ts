import type { Knex } from 'knex';
import { whereReadableByActor } from '#src/adapters/postgres/readable.ts';
import {
  defineRowShape,
  numericColumn,
  queryFirstRow,
  queryOneRow,
  queryRows,
  textColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { selectReadableDocumentPage } from './document-pages.ts';
import {
  type ConversionText,
  conversionTextRowShape,
  DocumentModel,
  type DocumentRow,
  type DocumentStorageUsage,
  DocumentTotalModel,
  type DocumentView,
  documentUsageRowShape,
  documentViewRowShape,
  FolderLinkModel,
  type NewDocumentRow,
  type StoredBytes,
  storedBytesRowShape,
  type VectorStorePublication,
  vectorStorePublicationRowShape,
} from './documents.model.ts';

const PREVIEW_LENGTH = 280;
/** Lease for publishing to the vector store: longer than its timeout, so that no write outlasts the lease. */
const LEASE_SECONDS = 15;

const documentCount = defineRowShape({ total: numericColumn() });

type ContentOfDocument = { orgId: string; documentId: string; contentSha256: string };

type DocumentPage = {
  folderId?: string | undefined;
  createdBy?: string | undefined;
  limit: number;
  offset: number;
};

const orderNewestFirst = (time: string, id: string) => [
  { column: time, order: 'desc' },
  { column: id, order: 'desc' },
];

export function createDocumentsRepository(db: Knex) {
  /**
   * Selects the malware finding of another document with the same original, so that downloads are blocked before this
   * document's own scan.
   */
  const knownMalware = ({ orgId, blobKey, contentSha256 }: Pick<DocumentRow, 'orgId' | 'blobKey' | 'contentSha256'>) =>
    DocumentModel.query(db)
      .alias('twins')
      .where({ orgId, blobKey })
      .whereRaw(`malware ->> 'sha256' = ?`, [contentSha256])
      .select('malware')
      .limit(1);

  /**
   * Selects document views. The subquery `page` selects the document ids, so that joins and text previews are computed
   * for these documents only.
   */
  const views = (actor: Actor, page: Knex.QueryBuilder) => {
    const readableFolders = whereReadableByActor(FolderLinkModel.table(db), actor, 'folders')
      .join('folders', 'folders.id', 'folderLinks.folderId')
      .whereRaw('folder_links.document_id = documents.id')
      .orderBy('folderLinks.createdAt')
      .select('folders.id');
    return DocumentModel.table(db)
      .whereIn('documents.id', page)
      .join('users', 'users.id', 'documents.createdBy')
      .joinRaw(`
        left join document_generations newest
          on newest.document_id = documents.id and newest.generation = documents.generation
        left join jobs ingestion on ingestion.id = newest.job_id
        left join document_generations active
          on active.document_id = documents.id and active.generation = documents.active_generation
        left join conversions on conversions.org_id = documents.org_id and conversions.id = active.conversion_id
      `)
      .select(
        'documents.*',
        'users.displayName as createdByName',
        db.raw(`exists (
          select from connector_documents k
          where k.org_id = documents.org_id and k.document_id = documents.id
            and k.content_sha256 <> documents.content_sha256
        ) as is_detached`),
        db.raw('array(?) as folder_ids', [readableFolders]),
        db.raw('coalesce(conversions.char_count, 0) as char_count'),
        'conversions.pageCount',
        db.raw(`coalesce(left(conversions.body, ${PREVIEW_LENGTH}), '') as content_preview`),
        db.raw(`exists (
          select from previews where previews.org_id = documents.org_id and previews.original_key = documents.blob_key
        ) as has_preview_pdf`),
        'newest.jobId',
        'ingestion.status',
        db.raw(`case when ingestion.status in ('failed', 'cancelled', 'parked') then jsonb_build_object(
          'code', coalesce(ingestion.error_code, ingestion.status),
          'message', coalesce(ingestion.error_message, 'It was cancelled.')
        ) end as last_error`),
        'active.contentSha256 as activeContentSha256',
        'active.ragConfig as activeRagConfig',
        db.raw('newest.chunked_at is not null as chunking_complete'),
        db.raw('coalesce(documents.active_generation = documents.generation, false) as embedding_complete'),
        db.raw('coalesce(newest.chunks_total, 0) as chunks_total'),
        db.raw('coalesce(newest.chunks_embedded, 0) as chunks_embedded'),
      );
  };

  const readableIds = (actor: Actor) =>
    whereReadableByActor(DocumentModel.table(db), actor, 'documents').select('documents.id');

  /**
   * Selects the ids of one page of documents through an index. Does not check each document of a folder, because read
   * access to a folder includes its documents.
   */
  const pageOfIds = (actor: Actor, { folderId, createdBy, limit, offset }: DocumentPage) => {
    if (folderId !== undefined) {
      return FolderLinkModel.table(db)
        .where({ orgId: actor.orgId, folderId })
        .whereNotNull('listedAt')
        .orderBy(orderNewestFirst('listedAt', 'documentId'))
        .limit(limit)
        .offset(offset)
        .select('documentId');
    }
    if (createdBy === undefined) return selectReadableDocumentPage(db, actor, { limit, offset });
    return readableIds(actor)
      .where('documents.createdBy', createdBy)
      .orderBy(orderNewestFirst('documents.updatedAt', 'documents.id'))
      .limit(limit)
      .offset(offset);
  };

  return {
    async listReadable(actor: Actor, page: DocumentPage): Promise<DocumentView[]> {
      const listed = whereReadableByActor(views(actor, pageOfIds(actor, page)), actor, 'documents');
      return queryRows(
        db,
        documentViewRowShape,
        listed.orderBy(orderNewestFirst('documents.updatedAt', 'documents.id')),
      );
    },

    async findView(actor: Actor, id: string): Promise<DocumentView | undefined> {
      return queryFirstRow(db, documentViewRowShape, views(actor, readableIds(actor).where('documents.id', id)));
    },

    async readBody({ orgId, id }: Pick<DocumentRow, 'orgId' | 'id'>): Promise<string> {
      const active = db('documents as d')
        .join('documentGenerations as g', { 'g.documentId': 'd.id', 'g.generation': 'd.activeGeneration' })
        .join('conversions as c', { 'c.orgId': 'g.orgId', 'c.id': 'g.conversionId' })
        .where({ 'd.orgId': orgId, 'd.id': id })
        .select('c.body');
      return (await queryFirstRow(db, defineRowShape({ body: textColumn() }), active))?.body ?? '';
    },

    /** Finds the conversion of the document's current original; undefined if the original was not converted yet. */
    async findConversion({ orgId, id, contentSha256 }: DocumentRow): Promise<ConversionText | undefined> {
      const newest = db('documentGenerations as g')
        .join('conversions as c', { 'c.orgId': 'g.orgId', 'c.id': 'g.conversionId' })
        .where({ 'g.orgId': orgId, 'g.documentId': id, 'g.contentSha256': contentSha256 })
        .orderBy('g.generation', 'desc')
        .first('c.id as conversionId', 'c.body', 'c.pageMap');
      return queryFirstRow(db, conversionTextRowShape, newest);
    },

    async findRow(actor: Actor, id: string): Promise<DocumentRow | undefined> {
      return whereReadableByActor(DocumentModel.query(db), actor, 'documents').findById(id);
    },

    /** Finds the document of a signed download URL, without access check. Undefined once the original is replaced. */
    async findByOriginal({ documentId, orgId, contentSha256 }: ContentOfDocument): Promise<DocumentRow | undefined> {
      return DocumentModel.query(db).findOne({ id: documentId, orgId, contentSha256 }).whereNull('deletedAt');
    },

    async findByPreview({ documentId, orgId, contentSha256 }: ContentOfDocument): Promise<DocumentRow | undefined> {
      const previewed = db('documents as d')
        .join('previews as p', { 'p.orgId': 'd.orgId', 'p.originalKey': 'd.blobKey' })
        .where({ 'd.orgId': orgId, 'd.id': documentId, 'p.sha256': contentSha256 })
        .whereNull('d.deletedAt')
        .first('d.*');
      return queryFirstRow(db, DocumentModel, previewed);
    },

    /** Finds when the document's deletion began, without access check. Undefined if the document does not exist. */
    async findDeletedAt(id: string): Promise<Date | null | undefined> {
      return (await DocumentModel.table(db).where({ id }).first('deletedAt'))?.deletedAt;
    },

    async lockRow(actor: Actor, id: string): Promise<DocumentRow | undefined> {
      return whereReadableByActor(DocumentModel.query(db), actor, 'documents').findById(id).forNoKeyUpdate();
    },

    async insert(document: NewDocumentRow): Promise<void> {
      await DocumentModel.query(db).insert({ ...document, malware: knownMalware(document) });
    },

    /**
     * Writes the document columns that a request may change; the ingestion writes the others. If the vector store then
     * has an older state, marks the document for `createDocumentPublisher`.
     */
    async update(document: DocumentRow): Promise<void> {
      const { name, fileName, mediaType, declaredFormat, sourceFormat, sizeBytes, contentSha256, blobKey } = document;
      const original = { fileName, mediaType, declaredFormat, sourceFormat, sizeBytes, contentSha256, blobKey };
      const { ragConfig, acl, updatedBy } = document;
      await DocumentModel.query(db)
        .findById(document.id)
        .patch({
          ...{ name, ...original, ragConfig, acl, updatedBy },
          malware: knownMalware(document),
          // Sets the current time and not `now()`, the start of the transaction: a search lists the documents that
          // changed while it ran, and would miss this change.
          updatedAt: db.raw('clock_timestamp()'),
          pointsOutdatedAt: db.raw(
            `case when active_generation is not null
                   and (acl is distinct from ?::text[] or rag_config -> 'retrieval' is distinct from ?::jsonb)
             then clock_timestamp() else points_outdated_at end`,
            [acl, JSON.stringify(ragConfig.retrieval)],
          ),
        });
    },

    async setEmbeddingModel(id: string, model: string): Promise<void> {
      await DocumentModel.query(db)
        .findById(id)
        .patch({ ragConfig: db.raw(`jsonb_set(rag_config, '{embedding,model}', to_jsonb(?::text))`, [model]) });
    },

    async markDeleted(ids: readonly string[], updatedBy: string): Promise<number> {
      return DocumentModel.query(db)
        .whereIn('id', [...ids])
        .whereNull('deletedAt')
        .patch({ deletedAt: db.fn.now(), acl: [], pointsOutdatedAt: null, updatedBy });
    },

    async countReadable(actor: Actor, createdBy?: string): Promise<number> {
      const query = whereReadableByActor(DocumentTotalModel.table(db), actor, 'documentTotals');
      if (createdBy !== undefined) query.where({ createdBy });
      return (await queryOneRow(db, documentCount, query.select(db.raw('coalesce(sum(documents), 0) as total')))).total;
    },

    async countInFolder({ orgId }: Pick<Actor, 'orgId'>, folderId: string): Promise<number> {
      return FolderLinkModel.query(db).where({ orgId, folderId }).whereNotNull('listedAt').resultSize();
    },

    async usage(orgId: string): Promise<DocumentStorageUsage> {
      const totals = DocumentTotalModel.table(db)
        .where({ orgId })
        .select(
          db.raw('coalesce(sum(documents), 0)::bigint as documents'),
          db.raw('coalesce(sum(size_bytes), 0)::bigint as storage_bytes'),
        );
      return queryOneRow(db, documentUsageRowShape, totals);
    },

    async stored(orgId: string): Promise<StoredBytes> {
      return queryOneRow(
        db,
        storedBytesRowShape,
        `select
           (select coalesce(sum(size_bytes), 0)::bigint from document_totals where org_id = :orgId) as used_bytes,
           (
             select coalesce(sum(size_bytes), 0)::bigint from documents where org_id = :orgId and deleted_at is not null
           ) as deleted_bytes`,
        { orgId },
      );
    },

    async listUnpublished(limit: number): Promise<string[]> {
      return DocumentModel.table(db)
        .whereNotNull('pointsOutdatedAt')
        .whereNotNull('activeGeneration')
        .whereRaw('coalesce(points_leased_until < clock_timestamp(), true)')
        .orderBy('pointsOutdatedAt')
        .limit(limit)
        .pluck('id');
    },

    /** Takes the lease to publish a document. Undefined if the vector store is current or another process holds it. */
    async leasePublication(id: string): Promise<VectorStorePublication | undefined> {
      return queryFirstRow(
        db,
        vectorStorePublicationRowShape,
        `update documents set points_leased_until = clock_timestamp() + make_interval(secs => :seconds)
         where id = :id and points_outdated_at is not null and active_generation is not null
           and coalesce(points_leased_until < clock_timestamp(), true)
         returning org_id, id as document_id, active_generation as generation, active_embedding_model as model, acl,
                   retrieval_settings,
                   -- As text: a Date would round the microseconds away.
                   points_outdated_at::text as outdated_at, points_leased_until::text as leased_until`,
        { id, seconds: LEASE_SECONDS },
      );
    },

    /**
     * Ends the lease to write a document's access keys and settings to the vector store. A document that changed after
     * the written state stays marked as outdated.
     */
    async settlePublication({ documentId, outdatedAt, leasedUntil }: VectorStorePublication): Promise<void> {
      await db.raw(
        `update documents set
           points_outdated_at = nullif(points_outdated_at, :outdatedAt::timestamptz),
           points_leased_until = null
         where id = :documentId and points_leased_until = :leasedUntil::timestamptz`,
        { documentId, outdatedAt, leasedUntil },
      );
    },
  };
}
