import type { Knex } from 'knex';
import { readableBy } from '#src/adapters/postgres/readable.ts';
import { firstRow, rows } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { FolderLinkModel } from '#src/modules/documents/documents.model.ts';
import {
  type DocumentName,
  documentName,
  type Folder,
  FolderModel,
  type FolderView,
  folderView,
} from './folders.model.ts';

export function createFoldersRepository(db: Knex) {
  const readable = (actor: Actor) =>
    readableBy(FolderModel.query(db), actor, 'folders')
      .leftJoin('teams', 'teams.id', 'folders.teamId')
      .leftJoin('users', 'users.id', 'folders.ownerId')
      .select('folders.*', db.raw('(teams.disabled_at is not null or users.deleted_at is not null) as entity_missing'));

  return {
    async insert(folder: Omit<Folder, 'createdAt' | 'updatedAt' | 'version'>): Promise<void> {
      await FolderModel.query(db).insert(folder);
    },

    async renameOrganizationRoot(orgId: string, name: string): Promise<void> {
      const root = FolderModel.query(db).where({ orgId, systemRole: 'org_root' });
      await root.patch({ name, updatedAt: db.fn.now() });
    },

    /** Roots first, then by name. */
    async listReadable(actor: Actor): Promise<FolderView[]> {
      const ordered = readable(actor).orderByRaw('folders.parent_id is not null, lower(folders.name), folders.id');
      return rows(db, folderView, ordered);
    },

    async listChildren(actor: Actor, parentId: string): Promise<FolderView[]> {
      const children = readable(actor).where('folders.parentId', parentId);
      return rows(db, folderView, children.orderByRaw('lower(folders.name), folders.id'));
    },

    async findChild(actor: Actor, parentId: string, name: string): Promise<FolderView | undefined> {
      const named = readable(actor).where({ parentId }).whereRaw('lower(folders.name) = lower(?)', [name]);
      return firstRow(db, folderView, named);
    },

    async findReadable(actor: Actor, id: string): Promise<FolderView | undefined> {
      return firstRow(db, folderView, readable(actor).where('folders.id', id));
    },

    /** The same, and the row cannot be deleted before the end of the transaction. */
    async findReadableForLink(actor: Actor, id: string): Promise<FolderView | undefined> {
      const folder = readable(actor).where('folders.id', id).toKnexQuery();
      return firstRow(db, folderView, folder.forKeyShare('folders'));
    },

    async personalRootId(userId: string): Promise<string | undefined> {
      const root = await FolderModel.table(db).where({ ownerId: userId, systemRole: 'personal_root' }).first('id');
      return root?.id;
    },

    /** Names of at most `limit` readable documents that are linked to folders: to one, or to any. */
    async listDocumentNames(
      actor: Actor,
      { folderId, limit }: { folderId?: string; limit: number },
    ): Promise<DocumentName[]> {
      const query = readableBy(FolderLinkModel.query(db), actor, 'documents')
        .join('documents', 'documents.id', 'folderLinks.documentId')
        .orderByRaw('lower(documents.name), documents.id')
        .limit(limit)
        .select('folderLinks.folderId', 'documents.id', 'documents.name');
      if (folderId !== undefined) query.where('folderLinks.orgId', actor.orgId).where({ folderId });
      return rows(db, documentName, query);
    },
  };
}
