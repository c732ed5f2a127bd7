import type { Db } from '#src/ports/database.ts';
import type { Team } from './teams.model.ts';

type TeamRow = Team & { disabledAt: Date | null };

const columns = ['id', 'orgId', 'name', 'createdAt'] as const;

/** Teams that are not disabled. */
export function createTeamsRepository(db: Db) {
  const live = (orgId: string) => db<TeamRow>('teams').where({ orgId, disabledAt: null });

  return {
    async list(orgId: string): Promise<Team[]> {
      return live(orgId)
        .orderByRaw('lower(name), id')
        .select(...columns);
    },

    async find(orgId: string, id: string): Promise<Team | undefined> {
      return live(orgId)
        .where({ id })
        .first(...columns);
    },

    /** Those of the ids that are live teams of the organization. */
    async liveIds(orgId: string, ids: readonly string[]): Promise<string[]> {
      const rows = await live(orgId).whereIn('id', ids).select('id');
      return rows.map((row) => row.id);
    },

    /** Undefined when a live team of the organization has the name, in whatever case. */
    async insert(team: Omit<Team, 'createdAt'>): Promise<Team | undefined> {
      const [row] = await db('teams')
        .insert(team)
        .onConflict(db.raw('(org_id, lower(name)) where disabled_at is null'))
        .ignore()
        .returning<Team[]>([...columns]);
      return row;
    },

    async disable(id: string): Promise<void> {
      await db('teams').where({ id }).update({ disabledAt: db.fn.now() });
    },
  };
}
