import { renewDocumentKeys } from '#src/adapters/postgres/document-keys.ts';
import { readableBy } from '#src/adapters/postgres/readable.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { DocumentLink } from './documents.model.ts';

type NewLink = { orgId: string; folderId: string; documentId: string; createdBy: string };

/** Whoever changes links holds the document's row. */
export function createDocumentLinksRepository(db: Db) {
  const add = async (link: NewLink): Promise<void> => {
    await db('folderLinks').insert(link).onConflict(['documentId', 'folderId']).ignore();
  };

  return {
    /** Those in folders that the caller may read, oldest first. */
    async listReadable(actor: Actor, documentId: string): Promise<DocumentLink[]> {
      return readableBy(db('folderLinks'), actor, 'folders')
        .join('folders', 'folders.id', 'folderLinks.folderId')
        .where('folderLinks.documentId', documentId)
        .orderBy(['folderLinks.createdAt', 'folders.id'])
        .select(
          ...['folders.id as folderId', 'folders.name as folderName'],
          ...['folders.orgId', 'folders.acl', 'folders.ownerId as createdBy'],
        );
    },

    async count(documentId: string): Promise<number> {
      const [row] = await db('folderLinks').where({ documentId }).count<{ count: number }[]>();
      return row?.count ?? 0;
    },

    /** Does nothing when it is there. */
    add,

    async remove(documentId: string, folderIds: readonly string[]): Promise<void> {
      await db('folderLinks')
        .where({ documentId })
        .whereIn('folderId', [...folderIds])
        .delete();
    },

    /** Leaves the document in the given folder only. */
    async moveTo(link: NewLink): Promise<void> {
      await add(link);
      await db('folderLinks').where({ documentId: link.documentId }).whereNot({ folderId: link.folderId }).delete();
    },

    /**
     * After every change of them, which is a change of the document also when the keys stay.
     * @returns the keys that open the document from now on
     */
    async renewKeys(documentId: string): Promise<string[]> {
      await renewDocumentKeys(db, [documentId]);
      const document = db('documents').where({ id: documentId });
      const [row] = await document.increment('version').returning<{ acl: string[] }[]>('acl');
      return row?.acl ?? [];
    },
  };
}
