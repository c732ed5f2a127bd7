import type { Knex } from 'knex';
import { renewDocumentKeys } from '#src/adapters/postgres/document-keys.ts';
import { readableBy } from '#src/adapters/postgres/readable.ts';
import { rows } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { type DocumentLink, DocumentModel, documentLink, FolderLinkModel } from './documents.model.ts';

type NewLink = { orgId: string; folderId: string; documentId: string; createdBy: string };

/** Whoever changes links holds the document's row. */
export function createDocumentLinksRepository(db: Knex) {
  const add = async (link: NewLink): Promise<void> => {
    await FolderLinkModel.table(db).insert(link).onConflict(['documentId', 'folderId']).ignore();
  };

  return {
    /** Those in folders that the caller may read, oldest first. */
    async listReadable(actor: Actor, documentId: string): Promise<DocumentLink[]> {
      const links = readableBy(FolderLinkModel.table(db), actor, 'folders')
        .join('folders', 'folders.id', 'folderLinks.folderId')
        .where('folderLinks.documentId', documentId)
        .orderBy(['folderLinks.createdAt', 'folders.id'])
        .select(
          ...['folders.id as folderId', 'folders.name as folderName'],
          ...['folders.orgId', 'folders.acl', 'folders.ownerId as createdBy'],
        );
      return rows(db, documentLink, links);
    },

    async count(documentId: string): Promise<number> {
      return FolderLinkModel.query(db).where({ documentId }).resultSize();
    },

    /** Does nothing when it is there. */
    add,

    async remove(documentId: string, folderIds: readonly string[]): Promise<void> {
      await FolderLinkModel.query(db)
        .where({ documentId })
        .whereIn('folderId', [...folderIds])
        .delete();
    },

    /** Leaves the document in the given folder only. */
    async moveTo(link: NewLink): Promise<void> {
      await add(link);
      const { documentId, folderId } = link;
      await FolderLinkModel.query(db).where({ documentId }).whereNot({ folderId }).delete();
    },

    /**
     * After every change of them, which is a change of the document also when the keys stay.
     * @returns the keys that open the document from now on
     */
    async renewKeys(documentId: string): Promise<string[]> {
      await renewDocumentKeys(db, [documentId]);
      const document = DocumentModel.table(db).where({ id: documentId });
      const [row] = await document.increment('version').returning('acl');
      return row?.acl ?? [];
    },
  };
}
