import { lockDocumentsIn, renewDocumentKeys } from '#src/adapters/postgres/document-keys.ts';
import type { Db } from '#src/ports/database.ts';

export type Content = { id: string; acl: string[]; isElsewhere: boolean };

/** Documents by the folders that they are in, whoever may read them. */
export function createFolderContentsRepository(db: Db) {
  return {
    /** Holds them until the end of the transaction, but for those whose deletion has begun. @returns their ids */
    lock: (folderIds: readonly string[]) => lockDocumentsIn(db, folderIds),

    /** Each with its keys, and whether it is in a folder beside these. */
    async list(documentIds: readonly string[], folderIds: readonly string[]): Promise<Content[]> {
      const { rows } = await db.raw<{ rows: Content[] }>(
        `select d.id, d.acl, d.id in (
           select l.document_id from folder_links l
           where l.document_id = any (:documentIds::uuid[]) and l.folder_id <> all (:folderIds::uuid[])
         ) as is_elsewhere
         from documents d where d.id = any (:documentIds::uuid[])`,
        { documentIds: [...documentIds], folderIds: [...folderIds] },
      );
      return rows;
    },

    /** No key opens them from then on. */
    async markDeleted(documentIds: readonly string[], updatedBy: string): Promise<void> {
      await db('documents')
        .whereIn('id', [...documentIds])
        .update({ deletedAt: db.fn.now(), acl: [], pointsOutdatedAt: null, updatedBy });
    },

    async removeLinks(folderIds: readonly string[]): Promise<void> {
      await db('folderLinks')
        .whereIn('folderId', [...folderIds])
        .delete();
    },

    renewKeys: (documentIds: readonly string[]) => renewDocumentKeys(db, documentIds),
  };
}
