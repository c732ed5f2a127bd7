import type { Knex } from 'knex';
import { type Team, TeamModel } from './teams.model.ts';

const columns = ['id', 'orgId', 'name', 'createdAt'] as const;

/** Teams that are not disabled. */
export function createTeamsRepository(db: Knex) {
  const live = (orgId: string) => TeamModel.table(db).where({ orgId, disabledAt: null });

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

    /** Also one that is disabled. */
    async isMade(orgId: string, id: string): Promise<boolean> {
      return (await TeamModel.table(db).where({ orgId, id }).first('id')) !== undefined;
    },

    /** Those of the ids that are live teams of the organization. */
    async liveIds(orgId: string, ids: readonly string[]): Promise<string[]> {
      const rows = await live(orgId).whereIn('id', ids).select('id');
      return rows.map((row) => row.id);
    },

    /** Undefined when a live team of the organization has the name, in whatever case. */
    async insert(team: Omit<Team, 'createdAt'>): Promise<Team | undefined> {
      const [row] = await TeamModel.table(db)
        .insert(team)
        .onConflict(db.raw('(org_id, lower(name)) where disabled_at is null'))
        .ignore()
        .returning([...columns]);
      return row;
    },

    async disable(id: string): Promise<void> {
      await TeamModel.query(db).where({ id }).patch({ disabledAt: db.fn.now() });
    },
  };
}
