import { readableBy } from '#src/adapters/postgres/readable.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { DocumentRow, DocumentView } from './documents.model.ts';

const previewLength = 280;

export function createDocumentsRepository(db: Db) {
  /** `page` is a query of document ids: joins and previews are then paid for one page only. */
  const views = (actor: Actor, page: ReturnType<typeof readableIds>) => {
    const readableFolders = readableBy(db('folderLinks'), actor, 'folders')
      .join('folders', 'folders.id', 'folderLinks.folderId')
      .whereRaw('folder_links.document_id = documents.id')
      .orderBy('folderLinks.createdAt')
      .select('folders.id');
    return db('documents')
      .whereIn('documents.id', page)
      .join('users', 'users.id', 'documents.createdBy')
      .joinRaw(`
        left join document_generations newest
          on newest.document_id = documents.id and newest.generation = documents.generation
        left join document_generations active
          on active.document_id = documents.id and active.generation = documents.active_generation
        left join conversions on conversions.org_id = documents.org_id and conversions.id = active.conversion_id
      `)
      .select<DocumentView[]>(
        'documents.*',
        'users.displayName as createdByName',
        db.raw('array(?) as folder_ids', [readableFolders]),
        db.raw('coalesce(conversions.char_count, 0) as char_count'),
        'conversions.pageCount',
        db.raw(`coalesce(left(conversions.body, ${previewLength}), '') as content_preview`),
        'newest.jobId',
        db.raw('newest.chunked_at is not null as chunking_complete'),
        db.raw('coalesce(documents.active_generation = documents.generation, false) as embedding_complete'),
        db.raw('coalesce(newest.chunks_total, 0) as chunks_total'),
        db.raw('coalesce(newest.chunks_embedded, 0) as chunks_embedded'),
      );
  };

  const readableIds = (actor: Actor, folderId?: string) => {
    const query = readableBy(db<DocumentRow>('documents'), actor, 'documents').select('documents.id');
    if (folderId !== undefined) {
      query.whereExists((links) =>
        links.from('folderLinks').whereRaw('folder_links.document_id = documents.id').where({ folderId }),
      );
    }
    return query;
  };

  return {
    async listReadable(
      actor: Actor,
      page: { folderId?: string | undefined; limit: number; offset: number },
    ): Promise<{ items: DocumentView[]; total: number }> {
      const newestFirst = [
        { column: 'documents.updatedAt', order: 'desc' },
        { column: 'documents.id', order: 'desc' },
      ];
      const ids = readableIds(actor, page.folderId).orderBy(newestFirst).limit(page.limit).offset(page.offset);
      const [items, counted] = await Promise.all([
        views(actor, ids).orderBy(newestFirst),
        db.from(readableIds(actor, page.folderId).as('readable')).count<{ count: number }[]>({ count: '*' }),
      ]);
      return { items, total: counted[0]?.count ?? 0 };
    },

    async findView(actor: Actor, id: string): Promise<DocumentView | undefined> {
      const [document] = await views(actor, readableIds(actor).where('documents.id', id));
      return document;
    },

    /** The Markdown body of what readers see; empty before the first activation. */
    async readBody(document: Pick<DocumentRow, 'orgId' | 'id' | 'activeGeneration'>): Promise<string> {
      const row = await db('documentGenerations as g')
        .join('conversions as c', { 'c.orgId': 'g.orgId', 'c.id': 'g.conversionId' })
        .where({ 'g.orgId': document.orgId, 'g.documentId': document.id, 'g.generation': document.activeGeneration })
        .first<{ body: string } | undefined>('c.body');
      return row?.body ?? '';
    },

    async findRow(actor: Actor, id: string): Promise<DocumentRow | undefined> {
      const [row] = await readableBy(db<DocumentRow>('documents'), actor, 'documents')
        .where('documents.id', id)
        .select<DocumentRow[]>('documents.*');
      return row;
    },

    /** What the organization holds, for its limits. */
    async usage(orgId: string): Promise<{ documents: number; storageBytes: number }> {
      const [row] = await db('documents')
        .where({ orgId })
        .select<{ documents: number; storageBytes: number }[]>(
          db.raw('count(*) as documents'),
          db.raw('coalesce(sum(size_bytes), 0)::bigint as storage_bytes'),
        );
      return row ?? { documents: 0, storageBytes: 0 };
    },

    async insert(document: Omit<DocumentRow, 'createdAt' | 'updatedAt' | 'activeGeneration'>): Promise<void> {
      await db('documents').insert({ ...document, ragConfig: JSON.stringify(document.ragConfig) });
    },

    async link(link: { orgId: string; folderId: string; documentId: string; createdBy: string }): Promise<void> {
      await db('folderLinks').insert(link);
    },

    async openGeneration(generation: {
      orgId: string;
      documentId: string;
      generation: number;
      jobId: string;
    }): Promise<void> {
      await db('documentGenerations').insert(generation);
    },
  };
}
