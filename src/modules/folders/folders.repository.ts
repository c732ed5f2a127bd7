import { readableBy } from '#src/adapters/postgres/readable.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';
import type { DocumentName, Folder, FolderView } from './folders.model.ts';

export function createFoldersRepository(db: Db) {
  const readable = (actor: Actor) =>
    readableBy(db('folders'), actor, 'folders')
      .leftJoin('teams', 'teams.id', 'folders.teamId')
      .leftJoin('users', 'users.id', 'folders.ownerId')
      .select<FolderView[]>(
        'folders.*',
        db.raw('(teams.disabled_at is not null or users.deleted_at is not null) as entity_missing'),
      );

  return {
    async insert(folder: Omit<Folder, 'createdAt' | 'updatedAt'>): Promise<void> {
      await db('folders').insert(folder);
    },

    async renameOrganizationRoot(orgId: string, name: string): Promise<void> {
      const root = db('folders').where({ orgId, systemRole: 'org_root' });
      await root.update({ name, updatedAt: db.fn.now() });
    },

    /** Roots first, then by name. */
    async listReadable(actor: Actor): Promise<FolderView[]> {
      return readable(actor).orderByRaw('folders.parent_id is not null, lower(folders.name), folders.id');
    },

    async listChildren(actor: Actor, parentId: string): Promise<FolderView[]> {
      return readable(actor).where('folders.parentId', parentId).orderByRaw('lower(folders.name), folders.id');
    },

    async findChild(actor: Actor, parentId: string, name: string): Promise<FolderView | undefined> {
      const [folder] = await readable(actor).where({ parentId }).whereRaw('lower(folders.name) = lower(?)', [name]);
      return folder;
    },

    async findReadable(actor: Actor, id: string): Promise<FolderView | undefined> {
      const [folder] = await readable(actor).where('folders.id', id);
      return folder;
    },

    /** The same, and the row cannot be deleted before the end of the transaction. */
    async findReadableForLink(actor: Actor, id: string): Promise<FolderView | undefined> {
      const [folder] = await readable(actor).where('folders.id', id).forKeyShare('folders');
      return folder;
    },

    async personalRootId(userId: string): Promise<string | undefined> {
      const root = await db<Folder>('folders').where({ ownerId: userId, systemRole: 'personal_root' }).first('id');
      return root?.id;
    },

    /** Names of the readable documents that are linked to folders: to one, or to any. */
    async listDocumentNames(actor: Actor, folderId?: string): Promise<DocumentName[]> {
      const query = readableBy(db('folderLinks'), actor, 'documents')
        .join('documents', 'documents.id', 'folderLinks.documentId')
        .orderByRaw('lower(documents.name), documents.id')
        .select<DocumentName[]>('folderLinks.folderId', 'documents.id', 'documents.name');
      return folderId === undefined ? query : query.where({ 'folderLinks.orgId': actor.orgId, folderId });
    },
  };
}
