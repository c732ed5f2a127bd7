import type { Knex } from 'knex';
import { makeOnce } from '#src/domain/access/idempotency.ts';
import { can } from '#src/domain/access/policy.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { AccountsService } from '#src/modules/auth/accounts.service.ts';
import type { AccessChangesService } from '#src/modules/organization/access-changes.service.ts';
import type { OrganizationService } from '#src/modules/organization/organization.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { Member, MemberList, NewMember } from './members.model.ts';
import { createMembersRepository } from './members.repository.ts';

/** Who belongs to an organization, and who administers it. */
export function createMembersService(deps: {
  db: Knex;
  accounts: Pick<AccountsService, 'prepare' | 'create'>;
  organizations: Pick<OrganizationService, 'get'>;
  limits: Pick<TierLimitsService, 'of'>;
  teams: Pick<TeamsService, 'get' | 'addMember'>;
  accessChanges: Pick<AccessChangesService, 'change' | 'administer'>;
  audit: AuditService;
}) {
  const { db, accounts, organizations, limits, teams, accessChanges, audit } = deps;

  async function get(trx: Knex, orgId: string, userId: string): Promise<Member> {
    const member = await createMembersRepository(trx).find(orgId, userId);
    if (member === undefined) throw appError('member_not_found');
    return member;
  }

  /** An organization has an admin who can act: `last_org_admin` when this one is the only one. */
  async function requireAnotherAdmin(trx: Knex, orgId: string, userId: string): Promise<void> {
    if ((await createMembersRepository(trx).countOtherAdmins(orgId, userId)) === 0) {
      throw appError('last_org_admin', { detail: 'Make another member an admin of the organization first.' });
    }
  }

  return {
    async list({ orgId }: Actor): Promise<MemberList> {
      const [{ tier }, { members: memberLimit }, items] = await Promise.all([
        organizations.get(orgId),
        limits.of(orgId),
        createMembersRepository(db).list(orgId),
      ]);
      return { orgId, tier, memberLimit, items };
    },

    /** A member of an organization, disabled or not. Throws `member_not_found`. */
    get,

    requireAnotherAdmin,

    /**
     * Makes a user who belongs to the caller's organization: for org admins and, into their team, for team admins.
     * Throws `email_taken`, `member_limit_reached`, `team_not_found`, `forbidden`, and `member_not_found` for one whom
     * this request has made before, and who was deleted since.
     */
    async add(actor: RequestActor, userId: string, { team, isOrgAdmin, ...person }: NewMember): Promise<Member> {
      const { orgId, userId: actorId, requestId } = actor;
      if (team !== undefined) await teams.get(db, orgId, team.teamId);
      requireMayAdd(actor, { team, isOrgAdmin });
      const make = async () => {
        const user = await accounts.prepare(person, orgId, userId);
        return accessChanges.change(actor, async (trx, caller, places) => {
          requireMayAdd(caller, { team, isOrgAdmin });
          const members = createMembersRepository(trx);
          places.take('members', await members.count(orgId));
          await accounts.create(trx, user, { orgId, isOrgAdmin, addedBy: actorId });
          if (team !== undefined)
            await teams.addMember(trx, { ...team, orgId, userId, addedBy: actorId, isEntrusted: true });
          const detail = { is_org_admin: isOrgAdmin, team_id: team?.teamId ?? null };
          await audit.record(trx, { orgId, actorId, action: 'member.added', target: userId, detail, requestId });
          return get(trx, orgId, userId);
        });
      };
      return makeOnce(make, async () =>
        (await createMembersRepository(db).isMade(userId)) ? get(db, orgId, userId) : undefined,
      );
    },

    /** Makes a member an org admin, or takes that away. Throws `forbidden`, `member_not_found`, `last_org_admin`. */
    async setOrgAdmin(actor: RequestActor, userId: string, isOrgAdmin: boolean): Promise<Member> {
      const { orgId, userId: actorId, requestId } = actor;
      return accessChanges.administer(actor, async (trx) => {
        const member = await get(trx, orgId, userId);
        if (member.isOrgAdmin === isOrgAdmin) return member;
        if (!isOrgAdmin) await requireAnotherAdmin(trx, orgId, userId);
        await createMembersRepository(trx).setOrgAdmin(orgId, userId, isOrgAdmin);
        const detail = { is_org_admin: isOrgAdmin };
        await audit.record(trx, { orgId, actorId, action: 'member.role_changed', target: userId, detail, requestId });
        return { ...member, isOrgAdmin };
      });
    },
  };
}

/** Only admins of the organization make others; into their team, team admins make members. */
function requireMayAdd(actor: Actor, { team, isOrgAdmin }: Pick<NewMember, 'team' | 'isOrgAdmin'>): void {
  if (can(actor, 'organization:administer', actor)) return;
  const isTheirs = team !== undefined && can(actor, 'team:manage_members', { orgId: actor.orgId, teamId: team.teamId });
  if (isOrgAdmin || !isTheirs) throw appError('forbidden');
}

export type MembersService = ReturnType<typeof createMembersService>;
