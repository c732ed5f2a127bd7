import type { Knex } from 'knex';
import { queryFirstRow, queryRows } from '#src/adapters/postgres/shapes.ts';
import {
  type NewTeamMember,
  type Team,
  type TeamMember,
  TeamMembershipModel,
  TeamModel,
  teamMemberRowShape,
} from './teams.model.ts';

const columns = ['id', 'orgId', 'name', 'createdAt'] as const;

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

    async wasCreated(orgId: string, id: string): Promise<boolean> {
      return (await TeamModel.table(db).where({ orgId, id }).first('id')) !== undefined;
    },

    async liveIds(orgId: string, ids: readonly string[]): Promise<string[]> {
      const rows = await live(orgId).whereIn('id', ids).select('id');
      return rows.map((row) => row.id);
    },

    /** Inserts a team. Returns undefined if another team of the organization has the same name, ignoring case. */
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

export function createTeamMembersRepository(db: Knex) {
  const members = (teamId: string) =>
    TeamMembershipModel.query(db)
      .alias('tm')
      .join('users as u', 'u.id', 'tm.userId')
      .where('tm.teamId', teamId)
      .whereNull('u.deletedAt')
      .where('u.isApiKey', false)
      .select(
        'u.id as userId',
        'u.email',
        'u.displayName',
        'tm.isTeamAdmin',
        db.raw('u.disabled_at is not null as is_disabled'),
        'tm.addedBy',
        'tm.addedAt',
      );

  return {
    async list(teamId: string): Promise<TeamMember[]> {
      return queryRows(db, teamMemberRowShape, members(teamId).orderBy(['tm.addedAt', 'u.id']));
    },

    async find(teamId: string, userId: string): Promise<TeamMember | undefined> {
      return queryFirstRow(db, teamMemberRowShape, members(teamId).where('u.id', userId));
    },

    /** Adds a member. For an existing member, `isTeamAdmin` and `isEntrusted` may become true but never false. */
    async add(member: NewTeamMember): Promise<void> {
      await TeamMembershipModel.query(db)
        .insert(member)
        .onConflict(['teamId', 'userId'])
        .merge({
          isTeamAdmin: db.raw('team_memberships.is_team_admin or excluded.is_team_admin'),
          isEntrusted: db.raw('team_memberships.is_entrusted or excluded.is_entrusted'),
        });
    },

    async setTeamAdmin(teamId: string, userId: string, isTeamAdmin: boolean): Promise<void> {
      await TeamMembershipModel.query(db).where({ teamId, userId }).patch({ isTeamAdmin });
    },

    async remove(teamId: string, userId: string): Promise<void> {
      await TeamMembershipModel.query(db).where({ teamId, userId }).delete();
    },
  };
}
