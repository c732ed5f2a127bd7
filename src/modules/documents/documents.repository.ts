import type { Knex } from 'knex';
import { text } from '#src/adapters/postgres/columns.ts';
import { readableBy } from '#src/adapters/postgres/readable.ts';
import { firstRow, rows, shape } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { pageOfReadable } from './document-pages.ts';
import {
  type ConversionText,
  conversionText,
  DocumentModel,
  type DocumentRow,
  type DocumentView,
  documentView,
  FolderLinkModel,
  type NewDocumentRow,
} from './documents.model.ts';

const previewLength = 280;

/** All readable ones, or those of a folder, or those that somebody has made. */
export type DocumentPage = {
  folderId?: string | undefined;
  createdBy?: string | undefined;
  limit: number;
  offset: number;
};

const newestFirst = (time: string, id: string) => [
  { column: time, order: 'desc' },
  { column: id, order: 'desc' },
];

export function createDocumentsRepository(db: Knex) {
  /** What a scanner has found in an original, as the documents say that have it. */
  const knownMalware = ({ orgId, blobKey, contentSha256 }: Pick<DocumentRow, 'orgId' | 'blobKey' | 'contentSha256'>) =>
    DocumentModel.query(db)
      .alias('twins')
      .where({ orgId, blobKey })
      .whereRaw(`malware ->> 'sha256' = ?`, [contentSha256])
      .select('malware')
      .limit(1);

  /** `page` is a query of document ids: joins and previews are then paid for one page only. */
  const views = (actor: Actor, page: Knex.QueryBuilder) => {
    const readableFolders = readableBy(FolderLinkModel.table(db), actor, 'folders')
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
        left join jobs stopped
          on stopped.id = newest.job_id and stopped.status in ('failed', 'cancelled', 'parked')
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
        db.raw(`coalesce(left(conversions.body, ${previewLength}), '') as content_preview`),
        db.raw(`exists (
          select from previews where previews.org_id = documents.org_id and previews.original_key = documents.blob_key
        ) as has_preview_pdf`),
        'newest.jobId',
        db.raw(`case when stopped.id is not null then jsonb_build_object(
          'code', coalesce(stopped.error_code, stopped.status), 'message', coalesce(stopped.error_message, 'It was cancelled.')
        ) end as last_error`),
        'active.contentSha256 as activeContentSha256',
        'active.ragConfig as activeRagConfig',
        db.raw('newest.chunked_at is not null as chunking_complete'),
        db.raw('coalesce(documents.active_generation = documents.generation, false) as embedding_complete'),
        db.raw('coalesce(newest.chunks_total, 0) as chunks_total'),
        db.raw('coalesce(newest.chunks_embedded, 0) as chunks_embedded'),
      );
  };

  const readableIds = (actor: Actor) => readableBy(DocumentModel.table(db), actor, 'documents').select('documents.id');

  /** In the order of an index. Who reads a folder reads what is in it, so that no document is looked at. */
  const pageOfIds = (actor: Actor, { folderId, createdBy, limit, offset }: DocumentPage) => {
    if (folderId !== undefined) {
      return FolderLinkModel.table(db)
        .where({ orgId: actor.orgId, folderId })
        .whereNotNull('listedAt')
        .orderBy(newestFirst('listedAt', 'documentId'))
        .limit(limit)
        .offset(offset)
        .select('documentId');
    }
    if (createdBy === undefined) return pageOfReadable(db, actor, { limit, offset });
    return readableIds(actor)
      .where('documents.createdBy', createdBy)
      .orderBy(newestFirst('documents.updatedAt', 'documents.id'))
      .limit(limit)
      .offset(offset);
  };

  return {
    async listReadable(actor: Actor, page: DocumentPage): Promise<DocumentView[]> {
      const listed = readableBy(views(actor, pageOfIds(actor, page)), actor, 'documents');
      return rows(db, documentView, listed.orderBy(newestFirst('documents.updatedAt', 'documents.id')));
    },

    async findView(actor: Actor, id: string): Promise<DocumentView | undefined> {
      return firstRow(db, documentView, views(actor, readableIds(actor).where('documents.id', id)));
    },

    /** The Markdown body of what readers see at this moment; empty before the first activation. */
    async readBody({ orgId, id }: Pick<DocumentRow, 'orgId' | 'id'>): Promise<string> {
      const active = db('documents as d')
        .join('documentGenerations as g', { 'g.documentId': 'd.id', 'g.generation': 'd.activeGeneration' })
        .join('conversions as c', { 'c.orgId': 'g.orgId', 'c.id': 'g.conversionId' })
        .where({ 'd.orgId': orgId, 'd.id': id })
        .select('c.body');
      return (await firstRow(db, shape({ body: text() }), active))?.body ?? '';
    },

    /** What the document's present original was converted to; undefined before that. */
    async findConversion({ orgId, id, contentSha256 }: DocumentRow): Promise<ConversionText | undefined> {
      const newest = db('documentGenerations as g')
        .join('conversions as c', { 'c.orgId': 'g.orgId', 'c.id': 'g.conversionId' })
        .where({ 'g.orgId': orgId, 'g.documentId': id, 'g.contentSha256': contentSha256 })
        .orderBy('g.generation', 'desc')
        .first('c.id as conversionId', 'c.body', 'c.pageMap');
      return firstRow(db, conversionText, newest);
    },

    async findRow(actor: Actor, id: string): Promise<DocumentRow | undefined> {
      return readableBy(DocumentModel.query(db), actor, 'documents').findById(id);
    },

    /** For whom its reader has given an address of this content of it. */
    async findContent(of: {
      orgId: string;
      documentId: string;
      contentSha256: string;
    }): Promise<DocumentRow | undefined> {
      const { documentId: id, ...content } = of;
      return DocumentModel.query(db)
        .findOne({ id, ...content })
        .whereNull('deletedAt');
    },

    /** The same of the preview of its original. */
    async findPreviewed({
      orgId,
      documentId,
      contentSha256,
    }: {
      orgId: string;
      documentId: string;
      contentSha256: string;
    }): Promise<DocumentRow | undefined> {
      const previewed = db('documents as d')
        .join('previews as p', { 'p.orgId': 'd.orgId', 'p.originalKey': 'd.blobKey' })
        .where({ 'd.orgId': orgId, 'd.id': documentId, 'p.sha256': contentSha256 })
        .whereNull('d.deletedAt')
        .first('d.*');
      return firstRow(db, DocumentModel, previewed);
    },

    /** Undefined when there is no such document, whoever may read it. */
    async findDeletedAt(id: string): Promise<Date | null | undefined> {
      return (await DocumentModel.table(db).where({ id }).first('deletedAt'))?.deletedAt;
    },

    /** The same, held until the end of the transaction. */
    async lockRow(actor: Actor, id: string): Promise<DocumentRow | undefined> {
      return readableBy(DocumentModel.query(db), actor, 'documents').findById(id).forNoKeyUpdate();
    },

    async insert(document: NewDocumentRow): Promise<void> {
      await DocumentModel.query(db).insert({ ...document, malware: knownMalware(document) });
    },

    /**
     * All that a request may change; its ingestion is not. What the vector store knows of the document is marked as
     * outdated when it is: see `createDocumentPublisher`.
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
          // Of this moment, not of the transaction's beginning: questions look for what was changed while they searched.
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

    /** No key opens them from then on. @returns how many there were; of the others somebody was first */
    async markDeleted(ids: readonly string[], updatedBy: string): Promise<number> {
      return DocumentModel.query(db)
        .whereIn('id', [...ids])
        .whereNull('deletedAt')
        .patch({ deletedAt: db.fn.now(), acl: [], pointsOutdatedAt: null, updatedBy });
    },
  };
}
