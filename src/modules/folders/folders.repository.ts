import type { Knex } from 'knex';
import { isUniqueViolation } from '#src/adapters/postgres/errors.ts';
import { whereReadableByActor } from '#src/adapters/postgres/readable.ts';
import {
  bigintColumn,
  defineRowShape,
  integerColumn,
  queryFirstRow,
  queryOneRow,
  queryRows,
  type SqlRow,
  uuidArrayColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { FolderLinkModel } from '#src/modules/documents/documents.model.ts';
import {
  type DocumentNameInFolder,
  documentNameInFolderRowShape,
  type Folder,
  FolderModel,
  type FolderView,
  folderViewRowShape,
} from './folders.model.ts';

type NewFolder = Omit<Folder, 'createdAt' | 'updatedAt' | 'version'>;

/** The ids of a folder and of all folders below it. `height` counts the levels, 1 for a folder without subfolders. */
const subtree = defineRowShape({ ids: uuidArrayColumn(), height: integerColumn() });

export function createFoldersRepository(db: Knex) {
  const readable = (actor: Actor) =>
    whereReadableByActor(FolderModel.query(db), actor, 'folders')
      .leftJoin('teams', 'teams.id', 'folders.teamId')
      .leftJoin('users', 'users.id', 'folders.ownerId')
      .select('folders.*', db.raw('(teams.disabled_at is not null or users.deleted_at is not null) as entity_missing'));

  /**
   * Inserts a folder. Returns false if another folder of the same parent has the name; the caller must then roll the
   * transaction back.
   */
  async function unlessNameTaken(change: PromiseLike<unknown>): Promise<boolean> {
    try {
      await change;
      return true;
    } catch (error) {
      if (isUniqueViolation(error, 'folders_sibling_name_key')) return false;
      throw error;
    }
  }

  return {
    async listReadable(actor: Actor): Promise<FolderView[]> {
      const ordered = readable(actor).orderByRaw('folders.parent_id is not null, lower(folders.name), folders.id');
      return queryRows(db, folderViewRowShape, ordered);
    },

    async listChildren(actor: Actor, parentId: string): Promise<FolderView[]> {
      const children = readable(actor).where('folders.parentId', parentId);
      return queryRows(db, folderViewRowShape, children.orderByRaw('lower(folders.name), folders.id'));
    },

    async findChild(actor: Actor, parentId: string, name: string): Promise<FolderView | undefined> {
      const named = readable(actor).where({ parentId }).whereRaw('lower(folders.name) = lower(?)', [name]);
      return queryFirstRow(db, folderViewRowShape, named);
    },

    async findReadable(actor: Actor, id: string): Promise<FolderView | undefined> {
      return queryFirstRow(db, folderViewRowShape, readable(actor).where('folders.id', id));
    },

    /** Finds and locks a folder, so that it cannot be deleted or get other access keys before the transaction ends. */
    async findReadableForLink(actor: Actor, id: string): Promise<FolderView | undefined> {
      const folder = readable(actor).where('folders.id', id).toKnexQuery();
      return queryFirstRow(db, folderViewRowShape, folder.forKeyShare('folders'));
    },

    async personalRootId(userId: string): Promise<string | undefined> {
      const root = await FolderModel.table(db).where({ ownerId: userId, systemRole: 'personal_root' }).first('id');
      return root?.id;
    },

    async listDocumentNames(
      actor: Actor,
      { folderId, limit }: { folderId?: string; limit: number },
    ): Promise<DocumentNameInFolder[]> {
      const query = whereReadableByActor(FolderLinkModel.query(db), actor, 'documents')
        .join('documents', 'documents.id', 'folderLinks.documentId')
        .orderByRaw('lower(documents.name), documents.id')
        .limit(limit)
        .select('folderLinks.folderId', 'documents.id', 'documents.name');
      if (folderId !== undefined) query.where('folderLinks.orgId', actor.orgId).where({ folderId });
      return queryRows(db, documentNameInFolderRowShape, query);
    },

    async insertRoot(folder: NewFolder): Promise<void> {
      await FolderModel.query(db).insert(folder);
    },

    async renameOrganizationRoot(orgId: string, name: string): Promise<void> {
      const root = FolderModel.query(db).where({ orgId, systemRole: 'org_root' });
      await root.patch({ name, updatedAt: db.fn.now() });
    },

    /** Serializes changes of an organization's folder trees. Must be the first folder lock of a transaction. */
    async lockTrees(orgId: string): Promise<void> {
      await FolderModel.query(db).where({ orgId, systemRole: 'org_root' }).forNoKeyUpdate().select('id');
    },

    /** Locks folders so that no document can be added to them; waits for transactions that are adding documents. */
    async lock(ids: readonly string[]): Promise<void> {
      await FolderModel.query(db)
        .whereIn('id', [...ids])
        .orderBy('id')
        .forUpdate()
        .select('id');
    },

    async subtree(id: string): Promise<SqlRow<typeof subtree>> {
      return queryOneRow(
        db,
        subtree,
        `with recursive below as (
           select id, 1 as level from folders where id = :id
           union all
           select f.id, below.level + 1 from folders f join below on f.parent_id = below.id
         )
         select coalesce(array_agg(id), '{}') as ids, coalesce(max(level), 0) as height from below`,
        { id },
      );
    },

    async areMadeBy(userId: string, ids: readonly string[]): Promise<boolean> {
      const others = FolderModel.table(db)
        .whereIn('id', [...ids])
        .whereNot({ createdBy: userId });
      return (await others.first('id')) === undefined;
    },

    async level(id: string): Promise<number> {
      const { level } = await queryOneRow(
        db,
        defineRowShape({ level: bigintColumn() }),
        `with recursive above as (
           select id, parent_id from folders where id = :id
           union all
           select f.id, f.parent_id from folders f join above on f.id = above.parent_id
         )
         select count(*) as level from above`,
        { id },
      );
      return level;
    },

    async count(orgId: string): Promise<number> {
      return FolderModel.query(db).where({ orgId, kind: 'user' }).resultSize();
    },

    insert: (folder: NewFolder): Promise<boolean> => unlessNameTaken(FolderModel.query(db).insert(folder)),

    /**
     * Renames or moves a folder. `updated_at` stays if nothing changes; a trigger increments `version` in any case.
     */
    update: (id: string, { name, parentId }: Pick<Folder, 'name' | 'parentId'>): Promise<boolean> =>
      unlessNameTaken(
        FolderModel.query(db)
          .where({ id })
          .patch({
            name,
            parentId,
            updatedAt: db.raw(
              'case when (name, parent_id) is distinct from (?, ?::uuid) then now() else updated_at end',
              [name, parentId],
            ),
          }),
      ),

    async setRoot(ids: readonly string[], root: Folder): Promise<void> {
      const { rootId, visibility, ownerId, teamId, acl } = root;
      await FolderModel.query(db)
        .whereIn('id', [...ids])
        .patch({ rootId, visibility, ownerId, teamId, acl, updatedAt: db.fn.now() });
    },

    /** Deletes empty folders, all in one statement, because subfolders have foreign keys to their parents. */
    async remove(ids: readonly string[]): Promise<void> {
      await FolderModel.query(db)
        .whereIn('id', [...ids])
        .delete();
    },
  };
}
