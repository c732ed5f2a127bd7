import type { Knex } from 'knex';
import type { FoldersOf } from '#src/adapters/postgres/document-keys.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { DeletionService } from '#src/modules/deletion/deletion.service.ts';
import { createDocumentsRepository } from './documents.repository.ts';
import { createFolderContentsRepository } from './folder-contents.repository.ts';

/** Well below what the database does in the time that one of its statements may take. */
const DOCUMENTS_AT_ONCE = 50_000;

export type FolderContentsService = ReturnType<typeof createFolderContentsService>;

/**
 * What happens to documents when something happens to their folders, in the same transaction. Its caller holds the
 * folders against new links. Throws `folder_too_large`.
 */
export function createFolderContentsService({ deletion }: { deletion: Pick<DeletionService, 'enqueueAll'> }) {
  async function hold(trx: Knex, of: FoldersOf): Promise<string[]> {
    const documentIds = await createFolderContentsRepository(trx).lock(of, DOCUMENTS_AT_ONCE + 1);
    if (documentIds.length > DOCUMENTS_AT_ONCE) {
      const detail = `It holds more than ${DOCUMENTS_AT_ONCE} documents: begin with its subfolders.`;
      throw appError('folder_too_large', { detail });
    }
    return documentIds;
  }

  return {
    isEmpty: (trx: Knex, of: FoldersOf): Promise<boolean> => createFolderContentsRepository(trx).isEmpty(of),

    /** Those read the documents, and their jobs, who read their folders now. The vector store is told by the sweeper. */
    async share(trx: Knex, of: FoldersOf): Promise<void> {
      const documentIds = await hold(trx, of);
      await createFolderContentsRepository(trx).renewKeys(documentIds);
    },

    /**
     * Empties folders. Documents that are in no other one are deleted, by runs that the sweeper starts after what
     * somebody waits for; the others lose the keys of these folders.
     */
    async discard(trx: Knex, actor: RequestActor, folderIds: readonly string[]): Promise<void> {
      const { orgId, userId, requestId } = actor;
      const contents = createFolderContentsRepository(trx);
      const held = await contents.list(await hold(trx, { orgId, folderIds }), folderIds);
      const staying = held.filter((one) => one.isElsewhere);
      const going = held.filter((one) => !one.isElsewhere);
      await createDocumentsRepository(trx).markDeleted(idsOf(going), userId);
      // Those who could read a document may see that it goes.
      const deleted = going.map(({ id, acl }) => ({ orgId, documentId: id, acl }));
      await deletion.enqueueAll(trx, deleted, { createdBy: userId, requestId });
      await contents.removeLinks({ orgId, folderIds });
      await contents.renewKeys(idsOf(staying));
      await contents.incrementVersions(idsOf(staying));
    },
  };
}

const idsOf = (documents: readonly { id: string }[]): string[] => documents.map(({ id }) => id);
