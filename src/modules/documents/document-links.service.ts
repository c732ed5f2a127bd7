import type { Knex } from 'knex';
import type { SelectedFolders } from '#src/adapters/postgres/readable.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { DeletionService } from '#src/modules/deletion/deletion.service.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import { createDocumentLinksRepository, createDocumentsInFoldersRepository } from './document-links.repository.ts';
import type { DocumentLink } from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';
import type { DocumentsService } from './documents.service.ts';

/**
 * Maximum number of documents whose access keys change in one transaction: Postgres updates that many well within its
 * statement timeout.
 */
const MAX_DOCUMENTS_PER_FOLDER_CHANGE = 50_000;

export type DocumentLinksService = ReturnType<typeof createDocumentLinksService>;

/** Manages the folders (at least one) of a document; the document has the access keys of all its folders. */
export function createDocumentLinksService(deps: {
  db: Knex;
  folders: Pick<FoldersService, 'requireTarget'>;
  documents: Pick<DocumentsService, 'lockWritable' | 'publishNow'>;
}) {
  const { db, folders, documents } = deps;

  async function list(actor: Actor, documentId: string): Promise<DocumentLink[]> {
    const document = await createDocumentsRepository(db).findRow(actor, documentId);
    if (document === undefined) throw appError('document_not_found');
    return createDocumentLinksRepository(db).listReadable(actor, documentId);
  }

  return {
    list,

    /**
     * Adds the document to a folder. `promote` removes it from all other folders from which the caller may remove it.
     * Throws `document_not_found`, `folder_not_found`, and `forbidden` if the document or the folder is read-only.
     */
    async add(
      actor: Actor,
      documentId: string,
      { folderId, promote }: { folderId: string; promote: boolean },
    ): Promise<DocumentLink[]> {
      await db.transaction(async (trx) => {
        const { orgId, id } = await folders.requireTarget(trx, actor, folderId);
        const { createdBy } = await documents.lockWritable(trx, actor, documentId);
        const links = createDocumentLinksRepository(trx);
        await links.add({ orgId, folderId: id, documentId, createdBy: actor.userId });
        if (promote) {
          const others = (await links.listReadable(actor, documentId)).filter((link) => link.folderId !== id);
          const action = createdBy === actor.userId ? 'folder:contribute' : 'folder:manage';
          const left = others.filter((link) => mayPerformAction(actor, action, link));
          await links.remove(
            documentId,
            left.map((link) => link.folderId),
          );
        }
        await links.renewKeys(documentId);
      });
      await documents.publishNow(documentId);
      return list(actor, documentId);
    },

    /**
     * Removes a document from a folder, which needs write access to the document or an admin of the folder. Throws
     * `document_not_found`, `folder_not_found` if the document is not in this folder, `forbidden`, and `last_link` if
     * the document is in no other folder.
     */
    async remove(actor: Actor, documentId: string, folderId: string): Promise<void> {
      await db.transaction(async (trx) => {
        // The lock on the document's row makes concurrent removals take turns, so that they cannot remove its last two
        // folder links.
        const document = await createDocumentsRepository(trx).lockRow(actor, documentId);
        if (document === undefined) throw appError('document_not_found');
        const links = createDocumentLinksRepository(trx);
        const link = (await links.listReadable(actor, documentId)).find((one) => one.folderId === folderId);
        if (link === undefined) throw appError('folder_not_found', { detail: 'The document is not in this folder.' });
        if (!mayPerformAction(actor, 'document:write', document) && !mayPerformAction(actor, 'folder:manage', link)) {
          throw appError('forbidden', {
            detail:
              'Only the author of the document, or an admin of the team or organization, may remove it from a folder.',
          });
        }
        if ((await links.count(documentId)) === 1) {
          throw appError('last_link', {
            detail: 'This is the only folder of the document. Move the document to another folder, or delete it.',
          });
        }
        await links.remove(documentId, [folderId]);
        await links.renewKeys(documentId);
      });
      await documents.publishNow(documentId);
    },
  };
}

/**
 * Updates or deletes the documents in folders, within the transaction that shares or deletes these folders. The caller
 * has locked the folders, so that no documents are added. Throws `folder_too_large`.
 */
export function createDocumentsInFoldersService({ deletion }: { deletion: Pick<DeletionService, 'enqueueAll'> }) {
  async function lockDocuments(trx: Knex, of: SelectedFolders): Promise<string[]> {
    const documentIds = await createDocumentsInFoldersRepository(trx).lock(of, MAX_DOCUMENTS_PER_FOLDER_CHANGE + 1);
    if (documentIds.length > MAX_DOCUMENTS_PER_FOLDER_CHANGE) {
      const detail = `The folder has more than ${MAX_DOCUMENTS_PER_FOLDER_CHANGE} documents. Begin with its subfolders.`;
      throw appError('folder_too_large', { detail });
    }
    return documentIds;
  }

  return {
    isEmpty: (trx: Knex, of: SelectedFolders): Promise<boolean> => createDocumentsInFoldersRepository(trx).isEmpty(of),

    areMadeBy: (trx: Knex, userId: string, of: SelectedFolders): Promise<boolean> =>
      createDocumentsInFoldersRepository(trx).areMadeBy(userId, of),

    /**
     * Recomputes the access keys of the folders' documents and of these documents' jobs. The sweeper later writes them
     * to the vector store.
     */
    async share(trx: Knex, of: SelectedFolders): Promise<void> {
      const documentIds = await lockDocuments(trx, of);
      await createDocumentsInFoldersRepository(trx).renewKeys(documentIds);
    },

    /**
     * Empties folders. Deletes documents that are in no other folder, through low-priority workflows that the sweeper
     * starts; removes the folders' access keys from the other documents.
     */
    async discard(trx: Knex, actor: RequestActor, folderIds: readonly string[]): Promise<void> {
      const { orgId, userId, requestId } = actor;
      const contents = createDocumentsInFoldersRepository(trx);
      const locked = await contents.list(await lockDocuments(trx, { orgId, folderIds }), folderIds);
      const kept = locked.filter((document) => document.isElsewhere);
      const orphans = locked.filter((document) => !document.isElsewhere);
      await createDocumentsRepository(trx).markDeleted(idsOf(orphans), userId);
      const deleted = orphans.map(({ id, acl }) => ({ orgId, documentId: id, acl }));
      await deletion.enqueueAll(trx, deleted, { createdBy: userId, requestId });
      await contents.removeLinks({ orgId, folderIds });
      await contents.renewKeys(idsOf(kept));
      await contents.incrementVersions(idsOf(kept));
    },
  };
}

const idsOf = (documents: readonly { id: string }[]): string[] => documents.map(({ id }) => id);
