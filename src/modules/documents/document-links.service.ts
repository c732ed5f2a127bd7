import type { Knex } from 'knex';
import { can } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import { lockWritable } from './document-access.ts';
import { createDocumentLinksRepository } from './document-links.repository.ts';
import type { DocumentPublisher } from './document-publisher.ts';
import type { DocumentLink } from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';

export type DocumentLinksService = ReturnType<typeof createDocumentLinksService>;

/** The folders that a document is in: it has the keys of them all, and is in one at least. */
export function createDocumentLinksService(deps: {
  db: Knex;
  folders: Pick<FoldersService, 'requireTarget'>;
  publisher: Pick<DocumentPublisher, 'publishNow'>;
}) {
  const { db, folders, publisher } = deps;

  /** In the folders that the caller may read. Throws `document_not_found`. */
  async function list(actor: Actor, documentId: string): Promise<DocumentLink[]> {
    const document = await createDocumentsRepository(db).findRow(actor, documentId);
    if (document === undefined) throw appError('document_not_found');
    return createDocumentLinksRepository(db).listReadable(actor, documentId);
  }

  return {
    list,

    /**
     * Puts the document into one more folder. With `promote` it leaves all others that the caller may write to. Throws
     * `document_not_found`, `folder_not_found`, and `forbidden` for who may only read the document or the folder.
     */
    async add(
      actor: Actor,
      documentId: string,
      { folderId, promote }: { folderId: string; promote: boolean },
    ): Promise<DocumentLink[]> {
      await db.transaction(async (trx) => {
        const { orgId, id } = await folders.requireTarget(trx, actor, folderId);
        await lockWritable(trx, actor, documentId);
        const links = createDocumentLinksRepository(trx);
        await links.add({ orgId, folderId: id, documentId, createdBy: actor.userId });
        if (promote) {
          const others = (await links.listReadable(actor, documentId)).filter((link) => link.folderId !== id);
          const leaving = others.filter((link) => can(actor, 'folder:write', link));
          await links.remove(
            documentId,
            leaving.map((link) => link.folderId),
          );
        }
        await links.renewKeys(documentId);
      });
      await publisher.publishNow(documentId);
      return list(actor, documentId);
    },

    /**
     * For who may write the document, or the folder. Throws `document_not_found`, `folder_not_found` when it is in no
     * such folder, `forbidden`, `last_link`.
     */
    async remove(actor: Actor, documentId: string, folderId: string): Promise<void> {
      await db.transaction(async (trx) => {
        // Held, so that of two that take the last two links away one is refused.
        const document = await createDocumentsRepository(trx).lockRow(actor, documentId);
        if (document === undefined) throw appError('document_not_found');
        const links = createDocumentLinksRepository(trx);
        const link = (await links.listReadable(actor, documentId)).find((one) => one.folderId === folderId);
        if (link === undefined) throw appError('folder_not_found', { detail: 'The document is in no such folder.' });
        if (!can(actor, 'document:write', document) && !can(actor, 'folder:write', link)) {
          throw appError('forbidden', { detail: 'You may change neither this document nor this folder.' });
        }
        if ((await links.count(documentId)) === 1) {
          throw appError('last_link', { detail: 'Move the document to another folder, or delete it.' });
        }
        await links.remove(documentId, [folderId]);
        await links.renewKeys(documentId);
      });
      await publisher.publishNow(documentId);
    },
  };
}
