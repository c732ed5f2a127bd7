import { readableBy } from '#src/adapters/postgres/readable.ts';
import type { Actor } from '#src/domain/visibility.ts';
import type { Db } from '#src/ports/database.ts';

/** Numbers of live documents, which triggers keep: nothing here is counted one by one but the links of one folder. */
export function createDocumentTotalsRepository(db: Db) {
  return {
    /** Of those that the caller may read, or that he may read and has made. */
    async readable(actor: Actor, createdBy?: string): Promise<number> {
      const query = readableBy(db('documentTotals'), actor, 'documentTotals').sum<{ sum: number }[]>(
        'documents as sum',
      );
      if (createdBy !== undefined) query.where({ createdBy });
      const [row] = await query;
      return row?.sum ?? 0;
    },

    /** Of a folder that the caller may read, and so all that is in it. */
    async inFolder({ orgId }: Pick<Actor, 'orgId'>, folderId: string): Promise<number> {
      const [row] = await db('folderLinks')
        .where({ orgId, folderId })
        .whereNotNull('listedAt')
        .count<{ count: number }[]>({ count: '*' });
      return row?.count ?? 0;
    },

    /** What the organization holds, for its limits. */
    async usage(orgId: string): Promise<{ documents: number; storageBytes: number }> {
      const [row] = await db('documentTotals')
        .where({ orgId })
        .select<{ documents: number; storageBytes: number }[]>(
          db.raw('coalesce(sum(documents), 0)::bigint as documents'),
          db.raw('coalesce(sum(size_bytes), 0)::bigint as storage_bytes'),
        );
      return row ?? { documents: 0, storageBytes: 0 };
    },
  };
}
