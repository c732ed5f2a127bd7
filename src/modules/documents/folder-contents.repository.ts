import type { Knex } from 'knex';
import { type FoldersOf, lockDocumentsIn, renewDocumentKeys } from '#src/adapters/postgres/document-keys.ts';
import { rows } from '#src/adapters/postgres/shapes.ts';
import { DocumentModel, type FolderContent, FolderLinkModel, folderContent } from './documents.model.ts';

/** Documents by the folders that they are in, whoever may read them. */
export function createFolderContentsRepository(db: Knex) {
  return {
    async isEmpty({ orgId, folderIds }: FoldersOf): Promise<boolean> {
      const link = FolderLinkModel.table(db)
        .where({ orgId })
        .whereIn('folderId', [...folderIds]);
      // Of a document whose deletion has begun it is not listed any more.
      return (await link.whereNotNull('listedAt').first('documentId')) === undefined;
    },

    /** Holds so many of them until the end of the transaction, but none whose deletion has begun. @returns their ids */
    lock: (of: FoldersOf, limit: number) => lockDocumentsIn(db, of, limit),

    /** Each with its keys, and whether it is in a folder beside these. */
    async list(documentIds: readonly string[], folderIds: readonly string[]): Promise<FolderContent[]> {
      return rows(
        db,
        folderContent,
        `select d.id, d.acl, d.id in (
           select l.document_id from folder_links l
           where l.document_id = any (:documentIds::uuid[]) and l.folder_id <> all (:folderIds::uuid[])
         ) as is_elsewhere
         from documents d where d.id = any (:documentIds::uuid[])`,
        { documentIds: [...documentIds], folderIds: [...folderIds] },
      );
    },

    async removeLinks({ orgId, folderIds }: FoldersOf): Promise<void> {
      await FolderLinkModel.query(db)
        .where({ orgId })
        .whereIn('folderId', [...folderIds])
        .delete();
    },

    renewKeys: (documentIds: readonly string[]) => renewDocumentKeys(db, documentIds),

    /** They have lost a folder, which is a change of them also when their keys stay. */
    async incrementVersions(documentIds: readonly string[]): Promise<void> {
      await DocumentModel.query(db)
        .whereIn('id', [...documentIds])
        .increment('version', 1);
    },
  };
}
