import type { Knex } from 'knex';
import { firstRow, rows } from '#src/adapters/postgres/shapes.ts';
import { type NewTeamMember, type TeamMember, TeamMembershipModel, teamMember } from './teams.model.ts';

/** The users in a team that are not deleted; disabled ones are. */
export function createTeamMembersRepository(db: Knex) {
  const members = (teamId: string) =>
    TeamMembershipModel.query(db)
      .alias('tm')
      .join('users as u', 'u.id', 'tm.userId')
      .where('tm.teamId', teamId)
      .whereNull('u.deletedAt')
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
      return rows(db, teamMember, members(teamId).orderBy(['tm.addedAt', 'u.id']));
    },

    async find(teamId: string, userId: string): Promise<TeamMember | undefined> {
      return firstRow(db, teamMember, members(teamId).where('u.id', userId));
    },

    /** A member who is there already may rise by it, and never falls. */
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
