import type { Knex } from 'knex';
import type { Actor } from '#src/domain/access/visibility.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import { createDocumentTotalsRepository } from './document-totals.repository.ts';
import type { DocumentView } from './documents.model.ts';
import { createDocumentsRepository } from './documents.repository.ts';

type DocumentList = { items: DocumentView[]; total: number };

/** Lists of documents, newest change first; `total` counts all that a list goes through. */
export function createDocumentLists(deps: { db: Knex; folders: Pick<FoldersService, 'get'> }) {
  const documents = createDocumentsRepository(deps.db);
  const totals = createDocumentTotalsRepository(deps.db);

  return {
    /** Throws `folder_not_found`. */
    async list(
      actor: Actor,
      page: { folderId: string | undefined; limit: number; offset: number },
    ): Promise<DocumentList> {
      const { folderId } = page;
      if (folderId !== undefined) await deps.folders.get(actor, folderId);
      const [items, total] = await Promise.all([
        documents.listReadable(actor, page),
        folderId === undefined ? totals.readable(actor) : totals.inFolder(actor, folderId),
      ]);
      return { items, total };
    },

    async listRecent(actor: Actor, { limit, mine }: { limit: number; mine: boolean }): Promise<DocumentList> {
      const createdBy = mine ? actor.userId : undefined;
      const [items, total] = await Promise.all([
        documents.listReadable(actor, { createdBy, limit, offset: 0 }),
        totals.readable(actor, createdBy),
      ]);
      return { items, total };
    },
  };
}
