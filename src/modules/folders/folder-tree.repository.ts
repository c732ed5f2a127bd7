import { isUniqueViolation } from '#src/adapters/postgres/unique-violation.ts';
import type { Db } from '#src/ports/database.ts';
import type { Folder } from './folders.model.ts';

/** A folder with all that are below it; `height` counts its levels, 1 for a folder without others. */
type Subtree = { ids: string[]; height: number };

/** The shape of an organization's trees. */
export function createFolderTreeRepository(db: Db) {
  /** False when a sibling has the name: the transaction can only be rolled back then. */
  async function unlessTaken(change: Promise<unknown>): Promise<boolean> {
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
      await db('folders').where({ orgId, systemRole: 'org_root' }).forNoKeyUpdate().first('id');
    },

    /** Until the end of the transaction nothing is linked in these folders. Waits for what is being linked there. */
    async lock(ids: readonly string[]): Promise<void> {
      await db('folders')
        .whereIn('id', [...ids])
        .orderBy('id')
        .forUpdate()
        .select('id');
    },

    async subtree(id: string): Promise<Subtree> {
      const { rows } = await db.raw<{ rows: [Subtree] }>(
        `with recursive below as (
           select id, 1 as level from folders where id = :id
           union all
           select f.id, below.level + 1 from folders f join below on f.parent_id = below.id
         )
         select coalesce(array_agg(id), '{}') as ids, coalesce(max(level), 0) as height from below`,
        { id },
      );
      return rows[0];
    },

    /** Of a root it is 1. */
    async level(id: string): Promise<number> {
      const { rows } = await db.raw<{ rows: [{ level: number }] }>(
        `with recursive above as (
           select id, parent_id from folders where id = :id
           union all
           select f.id, f.parent_id from folders f join above on f.id = above.parent_id
         )
         select count(*) as level from above`,
        { id },
      );
      return rows[0].level;
    },

    async count(orgId: string): Promise<number> {
      const [row] = await db('folders').where({ orgId, kind: 'user' }).count<{ count: number }[]>();
      return row?.count ?? 0;
    },

    insert: (folder: Omit<Folder, 'createdAt' | 'updatedAt'>) => unlessTaken(db('folders').insert(folder)),

    /** Its time is that of the last real change. */
    update: (id: string, { name, parentId }: Pick<Folder, 'name' | 'parentId'>) =>
      unlessTaken(
        db('folders')
          .where({ id })
          .whereRaw('(name, parent_id) is distinct from (?, ?::uuid)', [name, parentId])
          .update({ name, parentId, updatedAt: db.fn.now() }),
      ),

    /** For folders that have come to another root: what they have of it. */
    async adopt(ids: readonly string[], root: Folder): Promise<void> {
      const { rootId, visibility, ownerId, teamId, acl } = root;
      await db('folders')
        .whereIn('id', [...ids])
        .update({ rootId, visibility, ownerId, teamId, acl, updatedAt: db.fn.now() });
    },

    /** With nothing in them, and all at once: they refer to each other. */
    async remove(ids: readonly string[]): Promise<void> {
      await db('folders')
        .whereIn('id', [...ids])
        .delete();
    },
  };
}
