import type { Knex } from 'knex';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { MembersService } from '#src/modules/members/members.service.ts';
import type {
  AccessRightsChangesService,
  OrganizationService,
} from '#src/modules/organization/organization.service.ts';
import type { TeamMember, TeamMemberList } from './teams.model.ts';
import { createTeamMembersRepository } from './teams.repository.ts';
import type { TeamsService } from './teams.service.ts';

export function createTeamMembersService(deps: {
  db: Knex;
  organizations: Pick<OrganizationService, 'get'>;
  teams: Pick<TeamsService, 'get' | 'addMember'>;
  members: Pick<MembersService, 'get'>;
  accessChanges: Pick<AccessRightsChangesService, 'change'>;
  audit: AuditService;
}) {
  const { db, organizations, teams, members, accessChanges, audit } = deps;

  async function get(trx: Knex, teamId: string, userId: string): Promise<TeamMember> {
    const member = await createTeamMembersRepository(trx).find(teamId, userId);
    if (member === undefined) throw appError('member_not_found', { detail: 'The user is not in this team.' });
    return member;
  }

  async function changeTeam<Result>(
    actor: RequestActor,
    teamId: string,
    change: (
      trx: Knex,
      record: (action: string, userId: string, isTeamAdmin?: boolean) => Promise<void>,
      caller: RequestActor,
    ) => Promise<Result>,
  ): Promise<Result> {
    const { orgId, userId: actorId, requestId } = actor;
    return accessChanges.change(actor, async (trx, caller) => {
      await teams.get(trx, orgId, teamId);
      if (!mayPerformAction(caller, 'team:manage_members', { orgId, teamId })) {
        throw appError('forbidden', { detail: 'Only an admin of the team or of the organization may do this.' });
      }
      const record = async (action: string, target: string, isTeamAdmin?: boolean) => {
        const role = isTeamAdmin === undefined ? {} : { is_team_admin: isTeamAdmin };
        await audit.record(trx, { orgId, actorId, action, target, detail: { team_id: teamId, ...role }, requestId });
      };
      return change(trx, record, caller);
    });
  }

  return {
    async list(actor: Actor, teamId: string): Promise<TeamMemberList> {
      const { orgId } = actor;
      await teams.get(db, orgId, teamId);
      if (!mayPerformAction(actor, 'team:list_members', { orgId, teamId })) {
        throw appError('forbidden', {
          detail: 'Only members of the team and admins of the organization may list its members.',
        });
      }
      const [{ tier }, items] = await Promise.all([
        organizations.get(orgId),
        createTeamMembersRepository(db).list(teamId),
      ]);
      return { teamId, tier, items };
    },

    /**
     * Adds a member of the organization to a team, or promotes a team member; never demotes. The team's admins may
     * manage the account of the member only if the caller could manage it before.
     */
    async add(actor: RequestActor, teamId: string, userId: string, isTeamAdmin: boolean): Promise<TeamMember> {
      const { orgId, userId: addedBy } = actor;
      return changeTeam(actor, teamId, async (trx, record, caller) => {
        const isEntrusted = mayPerformAction(caller, 'user:manage', await members.get(trx, orgId, userId));
        const before = await createTeamMembersRepository(trx).find(teamId, userId);
        await teams.addMember(trx, { orgId, teamId, userId, isTeamAdmin, isEntrusted, addedBy });
        const after = await get(trx, teamId, userId);
        if (before === undefined) await record('team_member.added', userId, isTeamAdmin);
        else if (before.isTeamAdmin !== after.isTeamAdmin) await record('team_member.role_changed', userId, true);
        return after;
      });
    },

    async setTeamAdmin(actor: RequestActor, teamId: string, userId: string, isTeamAdmin: boolean): Promise<TeamMember> {
      return changeTeam(actor, teamId, async (trx, record) => {
        const member = await get(trx, teamId, userId);
        if (member.isTeamAdmin === isTeamAdmin) return member;
        await createTeamMembersRepository(trx).setTeamAdmin(teamId, userId, isTeamAdmin);
        await record('team_member.role_changed', userId, isTeamAdmin);
        return { ...member, isTeamAdmin };
      });
    },

    async remove(actor: RequestActor, teamId: string, userId: string): Promise<void> {
      await changeTeam(actor, teamId, async (trx, record) => {
        await get(trx, teamId, userId);
        await createTeamMembersRepository(trx).remove(teamId, userId);
        await record('team_member.removed', userId);
      });
    },
  };
}

export type TeamMembersService = ReturnType<typeof createTeamMembersService>;
