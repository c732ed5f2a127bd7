import type { Knex } from 'knex';
import {
  lockDocumentsInFolders,
  recomputeDocumentAccessKeys,
  type SelectedFolders,
  whereReadableByActor,
} from '#src/adapters/postgres/readable.ts';
import { queryRows } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import {
  type DocumentLink,
  DocumentModel,
  documentLinkRowShape,
  type FolderDocument,
  FolderLinkModel,
  folderDocumentRowShape,
} from './documents.model.ts';

type NewLink = { orgId: string; folderId: string; documentId: string; createdBy: string };

/** Links between documents and folders. Callers lock the document's row before they change its links. */
export function createDocumentLinksRepository(db: Knex) {
  const add = async (link: NewLink): Promise<void> => {
    await FolderLinkModel.table(db).insert(link).onConflict(['documentId', 'folderId']).ignore();
  };

  return {
    async listReadable(actor: Actor, documentId: string): Promise<DocumentLink[]> {
      const links = whereReadableByActor(FolderLinkModel.table(db), actor, 'folders')
        .join('folders', 'folders.id', 'folderLinks.folderId')
        .where('folderLinks.documentId', documentId)
        .orderBy(['folderLinks.createdAt', 'folders.id'])
        .select(
          ...['folders.id as folderId', 'folders.name as folderName'],
          ...['folders.orgId', 'folders.acl', 'folders.ownerId', 'folders.createdBy'],
        );
      return queryRows(db, documentLinkRowShape, links);
    },

    async count(documentId: string): Promise<number> {
      return FolderLinkModel.query(db).where({ documentId }).resultSize();
    },

    add,

    async remove(documentId: string, folderIds: readonly string[]): Promise<void> {
      await FolderLinkModel.query(db)
        .where({ documentId })
        .whereIn('folderId', [...folderIds])
        .delete();
    },

    async moveTo(link: NewLink): Promise<void> {
      await add(link);
      const { documentId, folderId } = link;
      await FolderLinkModel.query(db).where({ documentId }).whereNot({ folderId }).delete();
    },

    /**
     * Recomputes a document's access keys; call it after every change of the document's folder links. Always increments
     * the document's version, because the version covers the folders too.
     * @returns the document's new access keys
     */
    async renewKeys(documentId: string): Promise<string[]> {
      await recomputeDocumentAccessKeys(db, [documentId]);
      const document = DocumentModel.table(db).where({ id: documentId });
      const [row] = await document.increment('version').returning('acl');
      return row?.acl ?? [];
    },
  };
}

export function createDocumentsInFoldersRepository(db: Knex) {
  return {
    async isEmpty({ orgId, folderIds }: SelectedFolders): Promise<boolean> {
      const link = FolderLinkModel.table(db)
        .where({ orgId })
        .whereIn('folderId', [...folderIds]);
      // The column `listedAt` of a folder link becomes null when the deletion of its document begins, which hides the
      // document from the folder.
      return (await link.whereNotNull('listedAt').first('documentId')) === undefined;
    },

    /** Whether the user made all documents in the folders. Documents that are being deleted do not count. */
    async areMadeBy(userId: string, { orgId, folderIds }: SelectedFolders): Promise<boolean> {
      const others = FolderLinkModel.table(db)
        .join('documents', 'documents.id', 'folderLinks.documentId')
        .where('folderLinks.orgId', orgId)
        .whereIn('folderLinks.folderId', [...folderIds])
        .whereNull('documents.deletedAt')
        .whereNot('documents.createdBy', userId);
      return (await others.first('documents.id')) === undefined;
    },

    lock: (of: SelectedFolders, limit: number) => lockDocumentsInFolders(db, of, limit),

    async list(documentIds: readonly string[], folderIds: readonly string[]): Promise<FolderDocument[]> {
      return queryRows(
        db,
        folderDocumentRowShape,
        `select d.id, d.acl, d.id in (
           select l.document_id from folder_links l
           where l.document_id = any (:documentIds::uuid[]) and l.folder_id <> all (:folderIds::uuid[])
         ) as is_elsewhere
         from documents d where d.id = any (:documentIds::uuid[])`,
        { documentIds: [...documentIds], folderIds: [...folderIds] },
      );
    },

    async removeLinks({ orgId, folderIds }: SelectedFolders): Promise<void> {
      await FolderLinkModel.query(db)
        .where({ orgId })
        .whereIn('folderId', [...folderIds])
        .delete();
    },

    renewKeys: (documentIds: readonly string[]) => recomputeDocumentAccessKeys(db, documentIds),

    /**
     * Increments the versions of documents whose folders changed, even if their access keys stay the same: a document's
     * version covers its folders.
     */
    async incrementVersions(documentIds: readonly string[]): Promise<void> {
      await DocumentModel.query(db)
        .whereIn('id', [...documentIds])
        .increment('version', 1);
    },
  };
}
