import type { Knex } from 'knex';
import { createOrFindExisting } from '#src/domain/access/idempotency.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import { type Actor, accessKeysOfRow, type RequestActor, type Visibility } from '#src/domain/access/visibility.ts';
import { appError, fieldError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { FoldersService } from '#src/modules/folders/folders.service.ts';
import type {
  AccessRightsChangesService,
  OrganizationService,
} from '#src/modules/organization/organization.service.ts';
import type { NewTeamMember, Team, TeamList } from './teams.model.ts';
import { createTeamMembersRepository, createTeamsRepository } from './teams.repository.ts';

/** Access to a new row: its visibility, its teams, and the access keys (`acl`) computed from both. */
type GrantedScope = { visibility: Visibility; teamIds: string[]; acl: string[] };

/** Manages teams. A disabled team is hidden, but its row stays because shared content refers to it. */
export function createTeamsService(deps: {
  db: Knex;
  organizations: Pick<OrganizationService, 'get'>;
  folders: Pick<FoldersService, 'createTeamRoot'>;
  accessChanges: Pick<AccessRightsChangesService, 'administer'>;
  audit: AuditService;
}) {
  const { db, organizations, folders, accessChanges, audit } = deps;

  async function get(trx: Knex, orgId: string, teamId: string): Promise<Team> {
    const team = await createTeamsRepository(trx).find(orgId, teamId);
    if (team === undefined) throw appError('team_not_found');
    return team;
  }

  return {
    async list({ orgId }: Actor): Promise<TeamList> {
      const [{ tier }, items] = await Promise.all([organizations.get(orgId), createTeamsRepository(db).list(orgId)]);
      return { orgId, tier, items };
    },

    get,

    /**
     * Throws `team_not_found` if an earlier attempt of the same request created the team and it was disabled since.
     */
    async create(actor: RequestActor, id: string, name: string): Promise<Team> {
      const { orgId, userId, requestId } = actor;
      const create = () =>
        accessChanges.administer(actor, async (trx) => {
          const team = await createTeamsRepository(trx).insert({ id, orgId, name });
          if (team === undefined)
            throw appError('name_taken', {
              detail: 'Another team of the organization has this name. Choose another name.',
            });
          await folders.createTeamRoot(trx, { orgId, teamId: id, name, createdBy: userId });
          await audit.record(trx, { orgId, actorId: userId, action: 'team.created', target: id, requestId });
          return team;
        });
      const findCreated = async () =>
        (await createTeamsRepository(db).wasCreated(orgId, id)) ? get(db, orgId, id) : undefined;
      return createOrFindExisting(create, findCreated);
    },

    /** Members of a disabled team immediately lose access to content that is shared with it. */
    async disable(actor: RequestActor, teamId: string): Promise<void> {
      const { orgId, userId, requestId } = actor;
      await accessChanges.administer(actor, async (trx) => {
        await get(trx, orgId, teamId);
        await createTeamsRepository(trx).disable(teamId);
        await audit.record(trx, { orgId, actorId: userId, action: 'team.disabled', target: teamId, requestId });
      });
    },

    /** Adds a member to a team; call it inside of a transaction of `accessChanges`. Throws `team_not_found`. */
    async addMember(trx: Knex, member: NewTeamMember): Promise<void> {
      await get(trx, member.orgId, member.teamId);
      await createTeamMembersRepository(trx).add(member);
    },

    /**
     * Checks a requested visibility and computes its access keys. `team_level` requires teams of the organization; the
     * caller must be in them or be an org admin. Throws `validation_failed`, `team_not_found`.
     */
    async grantScope(
      trx: Knex,
      actor: Actor,
      requested: { visibility: Visibility; teamIds: readonly string[] },
    ): Promise<GrantedScope> {
      const teamIds = [...new Set(requested.teamIds)];
      const isForTeams = requested.visibility === 'team_level';
      if (isForTeams && teamIds.length === 0) throw fieldError('team_ids', 'is required for team_level', 'required');
      if (!isForTeams && teamIds.length > 0) throw fieldError('team_ids', 'is only for team_level');

      const live = new Set(await createTeamsRepository(trx).liveIds(actor.orgId, teamIds));
      const { orgId } = actor;
      const isAllowed = (teamId: string) =>
        live.has(teamId) && mayPerformAction(actor, 'team:contribute', { orgId, teamId });
      if (!teamIds.every(isAllowed)) throw appError('team_not_found');

      const { visibility } = requested;
      return {
        visibility,
        teamIds,
        acl: accessKeysOfRow({ orgId: actor.orgId, createdBy: actor.userId, visibility, teamIds }),
      };
    },
  };
}

export type TeamsService = ReturnType<typeof createTeamsService>;
