import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { Tier } from '#src/domain/access/limits.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { AccountsService } from '#src/modules/auth/accounts.service.ts';
import type { SessionsService } from '#src/modules/auth/sessions.service.ts';
import type { MembersService } from '#src/modules/members/members.service.ts';
import type { UsersService } from '#src/modules/members/users.service.ts';
import type { AccessChangesService } from '#src/modules/organization/access-changes.service.ts';
import type { OrganizationService } from '#src/modules/organization/organization.service.ts';

/** Who works at the installation itself: the name of his account on the machine, and an id for this one command. */
export type Operator = { name: string; requestId: string };
/** A user by his email or his id. */
export type Whose = { email: string } | { userId: string };

/** What is done to organizations and users from outside of them. Recorded as of nobody, with the operator's name. */
export function createOperatorService(deps: {
  db: Knex;
  accounts: Pick<AccountsService, 'prepare' | 'createOrganization' | 'find'>;
  organizations: Pick<OrganizationService, 'setTier'>;
  members: Pick<MembersService, 'get' | 'requireAnotherAdmin'>;
  users: Pick<UsersService, 'setDisabled'>;
  sessions: Pick<SessionsService, 'list' | 'end'>;
  accessChanges: Pick<AccessChangesService, 'operate'>;
  audit: AuditService;
}) {
  const { db, accounts, organizations, members, users, sessions, accessChanges, audit } = deps;

  async function record(
    trx: Knex,
    { name, requestId }: Operator,
    { detail, ...entry }: { orgId: string; action: string; target: string; detail?: Record<string, string> },
  ): Promise<void> {
    await audit.record(trx, { ...entry, actorId: null, detail: { ...detail, operator: name }, requestId });
  }

  return {
    /** The account of a user. Throws `user_not_found`. */
    find: (who: Whose) => accounts.find(who),

    /** An organization whose first user is its admin. Throws `email_taken`. */
    async createOrganization(
      operator: Operator,
      { name, ...founder }: { name: string; email: string; password: string },
    ): Promise<{ orgId: string; userId: string }> {
      const user = await accounts.prepare(founder, 'operator');
      const orgId = uuidv7();
      await db.transaction(async (trx) => {
        await accounts.createOrganization(trx, user, { orgId, name });
        await record(trx, operator, { orgId, action: 'organization.created', target: orgId });
      });
      return { orgId, userId: user.userId };
    },

    /** What the organization has beyond its new limits stays. Throws `not_found`. @returns the tier that it had */
    async setTier(operator: Operator, orgId: string, tier: Tier): Promise<Tier> {
      return db.transaction(async (trx) => {
        const before = await organizations.setTier(trx, orgId, tier);
        const entry = { orgId, action: 'organization.tier_changed', target: orgId, detail: { from: before, to: tier } };
        if (before !== tier) await record(trx, operator, entry);
        return before;
      });
    },

    /** Throws `user_not_found`, `last_org_admin`. @returns false when it is so already */
    async setDisabled(operator: Operator, who: Whose, isDisabled: boolean): Promise<boolean> {
      const { orgId, userId } = await accounts.find(who);
      return accessChanges.operate(orgId, async (trx) => {
        const user = await members.get(trx, orgId, userId);
        if (user.isDisabled === isDisabled) return false;
        if (isDisabled && user.isOrgAdmin) await members.requireAnotherAdmin(trx, orgId, userId);
        await users.setDisabled(trx, userId, isDisabled);
        const action = isDisabled ? 'user.disabled' : 'user.enabled';
        await record(trx, operator, { orgId, action, target: userId });
        return true;
      });
    },

    /** A user's, newest first. Throws `user_not_found`. */
    async listSessions(who: Whose) {
      return sessions.list((await accounts.find(who)).userId);
    },

    /** Ends all of a user's sessions, or one of them. Throws `user_not_found`. @returns the ids of those that it has ended */
    async endSessions(operator: Operator, who: Whose, sessionId: string | null): Promise<string[]> {
      const { orgId, userId } = await accounts.find(who);
      return db.transaction(async (trx) => {
        const ended = await sessions.end(trx, userId, { sessionId });
        for (const target of ended) await record(trx, operator, { orgId, action: 'session.ended', target });
        return ended;
      });
    },
  };
}

export type OperatorService = ReturnType<typeof createOperatorService>;
