import type { Knex } from 'knex';
import { bigint, integer, type Row, uuidArray } from '#src/adapters/postgres/columns.ts';
import { isUniqueViolation } from '#src/adapters/postgres/errors.ts';
import { oneRow, shape } from '#src/adapters/postgres/shapes.ts';
import { type Folder, FolderModel } from './folders.model.ts';

/** A folder with all that are below it; `height` counts its levels, 1 for a folder without others. */
const subtree = shape({ ids: uuidArray(), height: integer() });

/** The shape of an organization's trees. */
export function createFolderTreeRepository(db: Knex) {
  /** False when a sibling has the name: the transaction can only be rolled back then. */
  async function unlessTaken(change: PromiseLike<unknown>): Promise<boolean> {
    try {
      await change;
      return true;
    } catch (error) {
      if (isUniqueViolation(error, 'folders_sibling_name_key')) return false;
      throw error;
    }
  }

  return {
    /** Until the end of the transaction nobody else changes the trees of the organization. To be the first lock on folders. */
    async lockTrees(orgId: string): Promise<void> {
      await FolderModel.query(db).where({ orgId, systemRole: 'org_root' }).forNoKeyUpdate().select('id');
    },

    /** Until the end of the transaction nothing is linked in these folders. Waits for what is being linked there. */
    async lock(ids: readonly string[]): Promise<void> {
      await FolderModel.query(db)
        .whereIn('id', [...ids])
        .orderBy('id')
        .forUpdate()
        .select('id');
    },

    async subtree(id: string): Promise<Row<typeof subtree>> {
      return oneRow(
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

    /** Of a root it is 1. */
    async level(id: string): Promise<number> {
      const { level } = await oneRow(
        db,
        shape({ level: bigint() }),
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

    insert: (folder: Omit<Folder, 'createdAt' | 'updatedAt' | 'version'>) =>
      unlessTaken(FolderModel.query(db).insert(folder)),

    /** Its time is that of the last real change, and its version that of the last request. */
    update: (id: string, { name, parentId }: Pick<Folder, 'name' | 'parentId'>) =>
      unlessTaken(
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

    /** For folders that have come to another root: what they have of it. */
    async adopt(ids: readonly string[], root: Folder): Promise<void> {
      const { rootId, visibility, ownerId, teamId, acl } = root;
      await FolderModel.query(db)
        .whereIn('id', [...ids])
        .patch({ rootId, visibility, ownerId, teamId, acl, updatedAt: db.fn.now() });
    },

    /** With nothing in them, and all at once: they refer to each other. */
    async remove(ids: readonly string[]): Promise<void> {
      await FolderModel.query(db)
        .whereIn('id', [...ids])
        .delete();
    },
  };
}
