import type { Knex } from 'knex';
import { createOrFindExisting } from '#src/domain/access/idempotency.ts';
import type { OrganizationTier } from '#src/domain/access/limits.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor, RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { AccountsService } from '#src/modules/auth/accounts.service.ts';
import type { SessionsService } from '#src/modules/auth/sessions.service.ts';
import type { SignInDelay } from '#src/modules/auth/sign-in-delay.service.ts';
import type {
  AccessRightsChangesService,
  OrganizationService,
} from '#src/modules/organization/organization.service.ts';
import type { TierLimitsService } from '#src/modules/organization/tier-limits.service.ts';
import type { TeamsService } from '#src/modules/teams/teams.service.ts';
import type { PasswordHasher } from '#src/ports/identity.ts';
import { createMembersRepository, type Member } from './members.repository.ts';

export type MembersService = ReturnType<typeof createMembersService>;

export type MemberList = { orgId: string; tier: OrganizationTier; memberLimit: number; items: Member[] };

type NewMember = {
  email: string;
  password: string;
  displayName: string | undefined;
  isOrgAdmin: boolean;
  team: { teamId: string; isTeamAdmin: boolean } | undefined;
};

export function createMembersService(deps: {
  db: Knex;
  accounts: Pick<AccountsService, 'prepare' | 'create'>;
  passwords: Pick<PasswordHasher, 'hash'>;
  sessions: Pick<SessionsService, 'endAll'>;
  signInDelay: Pick<SignInDelay, 'forgetFailures'>;
  organizations: Pick<OrganizationService, 'get'>;
  limits: Pick<TierLimitsService, 'of'>;
  teams: Pick<TeamsService, 'get' | 'addMember'>;
  accessChanges: Pick<AccessRightsChangesService, 'change' | 'administer'>;
  audit: AuditService;
}) {
  const { db, accounts, passwords, sessions, signInDelay, organizations, limits, teams, accessChanges, audit } = deps;

  async function get(trx: Knex, orgId: string, userId: string): Promise<Member> {
    const member = await createMembersRepository(trx).find(orgId, userId);
    if (member === undefined) throw appError('member_not_found');
    return member;
  }

  async function requireAnotherAdmin(trx: Knex, orgId: string, userId: string): Promise<void> {
    if ((await createMembersRepository(trx).countOtherAdmins(orgId, userId)) === 0) {
      throw appError('last_org_admin', { detail: 'Make another member an admin of the organization first.' });
    }
  }

  async function getManaged(trx: Knex, actor: RequestActor, userId: string): Promise<Member> {
    const user = await createMembersRepository(trx).find(actor.orgId, userId);
    if (user === undefined) throw appError('user_not_found');
    if (!mayPerformAction(actor, 'user:manage', user)) {
      throw appError('forbidden', {
        detail: 'Only an admin of the organization, or of all teams of the user, may change the user.',
      });
    }
    return user;
  }

  /**
   * Disables or enables an account, and ends all sessions of a disabled user. Call it in a transaction of
   * `accessChanges`.
   */
  async function setDisabled(trx: Knex, userId: string, isDisabled: boolean): Promise<void> {
    await createMembersRepository(trx).setDisabled(userId, isDisabled);
    if (isDisabled) await sessions.endAll(trx, [userId]);
  }

  async function record(
    trx: Knex,
    { orgId, userId: actorId, requestId }: RequestActor,
    entry: { action: string; target: string; detail?: Record<string, string | boolean | null> },
  ): Promise<void> {
    await audit.record(trx, { ...entry, orgId, actorId, requestId });
  }

  return {
    get,

    requireAnotherAdmin,

    setDisabled,

    async list({ orgId }: Actor): Promise<MemberList> {
      const [{ tier }, { members: memberLimit }, items] = await Promise.all([
        organizations.get(orgId),
        limits.of(orgId),
        createMembersRepository(db).list(orgId),
      ]);
      return { orgId, tier, memberLimit, items };
    },

    /**
     * Adds a member with id `userId`. Throws `member_not_found` if an earlier attempt of the same request created the
     * user and the user was deleted since.
     */
    async add(actor: RequestActor, userId: string, { team, isOrgAdmin, ...person }: NewMember): Promise<Member> {
      const { orgId, userId: actorId } = actor;
      if (team !== undefined) await teams.get(db, orgId, team.teamId);
      requireMayAdd(actor, { team, isOrgAdmin });
      const create = async () => {
        const user = await accounts.prepare(person, orgId, userId);
        return accessChanges.change(actor, async (trx, caller, quota) => {
          requireMayAdd(caller, { team, isOrgAdmin });
          quota.take('members', await createMembersRepository(trx).count(orgId));
          await accounts.create(trx, user, { orgId, isOrgAdmin, addedBy: actorId });
          if (team !== undefined)
            await teams.addMember(trx, { ...team, orgId, userId, addedBy: actorId, isEntrusted: true });
          const detail = { is_org_admin: isOrgAdmin, team_id: team?.teamId ?? null };
          await record(trx, actor, { action: 'member.added', target: userId, detail });
          return get(trx, orgId, userId);
        });
      };
      return createOrFindExisting(create, async () =>
        (await createMembersRepository(db).wasCreated(userId)) ? get(db, orgId, userId) : undefined,
      );
    },

    async setOrgAdmin(actor: RequestActor, userId: string, isOrgAdmin: boolean): Promise<Member> {
      const { orgId } = actor;
      return accessChanges.administer(actor, async (trx) => {
        const member = await get(trx, orgId, userId);
        if (member.isOrgAdmin === isOrgAdmin) return member;
        if (!isOrgAdmin) await requireAnotherAdmin(trx, orgId, userId);
        await createMembersRepository(trx).setOrgAdmin(orgId, userId, isOrgAdmin);
        const detail = { is_org_admin: isOrgAdmin };
        await record(trx, actor, { action: 'member.role_changed', target: userId, detail });
        return { ...member, isOrgAdmin };
      });
    },

    async update(
      actor: RequestActor,
      userId: string,
      change: { email?: string | undefined; displayName?: string | undefined },
    ): Promise<Member> {
      return accessChanges.change(actor, async (trx, caller) => {
        const user = await getManaged(trx, caller, userId);
        const { email = user.email, displayName = user.displayName } = change;
        const detail = { email_changed: email !== user.email, display_name_changed: displayName !== user.displayName };
        if (!detail.email_changed && !detail.display_name_changed) return user;
        if (!(await createMembersRepository(trx).update(userId, { email, displayName }))) throw appError('email_taken');
        await record(trx, actor, { action: 'user.changed', target: userId, detail });
        return { ...user, email, displayName };
      });
    },

    async disable(actor: RequestActor, userId: string): Promise<void> {
      await accessChanges.change(actor, async (trx, caller) => {
        const user = await getManaged(trx, caller, userId);
        if (user.isDisabled) return;
        if (user.isOrgAdmin) await requireAnotherAdmin(trx, actor.orgId, userId);
        if (userId === actor.userId)
          throw appError('forbidden', { detail: 'You cannot disable your own account. Ask another admin.' });
        await setDisabled(trx, userId, true);
        await record(trx, actor, { action: 'user.disabled', target: userId });
      });
    },

    async enable(actor: RequestActor, userId: string): Promise<void> {
      await accessChanges.change(actor, async (trx, caller) => {
        const user = await getManaged(trx, caller, userId);
        if (!user.isDisabled) return;
        await setDisabled(trx, userId, false);
        await record(trx, actor, { action: 'user.enabled', target: userId });
      });
    },

    async resetPassword(actor: RequestActor, userId: string, newPassword: string): Promise<void> {
      if (userId === actor.userId) {
        throw appError('forbidden', { detail: 'Change your own password with POST /auth/change-password.' });
      }
      // The caller's rights may change during the slow password hashing, so they are checked before and after it.
      const { email } = await getManaged(db, actor, userId);
      const passwordHash = await passwords.hash(newPassword, actor.orgId);
      await accessChanges.change(actor, async (trx, caller) => {
        await getManaged(trx, caller, userId);
        await createMembersRepository(trx).setPassword(userId, passwordHash);
        await sessions.endAll(trx, [userId]);
        await record(trx, actor, { action: 'user.password_reset', target: userId });
      });
      await signInDelay.forgetFailures(email);
    },
  };
}

function requireMayAdd(actor: Actor, { team, isOrgAdmin }: Pick<NewMember, 'team' | 'isOrgAdmin'>): void {
  if (mayPerformAction(actor, 'organization:administer', actor)) return;
  const managesTeam =
    team !== undefined && mayPerformAction(actor, 'team:manage_members', { orgId: actor.orgId, teamId: team.teamId });
  if (isOrgAdmin || !managesTeam) throw appError('forbidden');
}
