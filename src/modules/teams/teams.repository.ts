import type { Db } from '#src/ports/database.ts';

export function createTeamsRepository(db: Db) {
  return {
    /** Those of the ids that are live teams of the organization. */
    async liveIds(orgId: string, ids: readonly string[]): Promise<string[]> {
      const rows = await db<{ id: string; orgId: string; disabledAt: Date | null }>('teams')
        .where({ orgId, disabledAt: null })
        .whereIn('id', ids)
        .select('id');
      return rows.map((row) => row.id);
    },
  };
}
