import type { Knex } from 'knex';
import { v7 as uuidv7 } from 'uuid';
import type { OrganizationTier } from '#src/domain/access/limits.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { AccountsService } from '#src/modules/auth/accounts.service.ts';
import type { SessionsService } from '#src/modules/auth/sessions.service.ts';
import type { MembersService } from '#src/modules/members/members.service.ts';
import type {
  AccessRightsChangesService,
  OrganizationService,
} from '#src/modules/organization/organization.service.ts';
import { createOperatorRepository } from './operator.repository.ts';

/** The operator who runs a command: name of their user account on the machine, and a request id of the command. */
export type OperatorIdentity = { name: string; requestId: string };
export type EmailOrUserId = { email: string } | { userId: string };

/** Audit entries of operator commands have no `actorId`; `detail.operator` is the operator's name. */
export function createOperatorService(deps: {
  db: Knex;
  accounts: Pick<AccountsService, 'prepare' | 'createOrganization' | 'find'>;
  organizations: Pick<OrganizationService, 'setTier'>;
  members: Pick<MembersService, 'get' | 'requireAnotherAdmin' | 'setDisabled'>;
  sessions: Pick<SessionsService, 'list' | 'end'>;
  accessChanges: Pick<AccessRightsChangesService, 'operate'>;
  audit: AuditService;
}) {
  const { db, accounts, organizations, members, sessions, accessChanges, audit } = deps;

  async function record(
    trx: Knex,
    { name, requestId }: OperatorIdentity,
    { detail, ...entry }: { orgId: string; action: string; target: string; detail?: Record<string, string> },
  ): Promise<void> {
    await audit.record(trx, { ...entry, actorId: null, detail: { ...detail, operator: name }, requestId });
  }

  const lists = createOperatorRepository(db);

  return {
    listOrganizations: (limit: number) => lists.listOrganizations(limit),

    listUsers: (of: { orgId: string | null; limit: number }) => lists.listUsers(of),

    find: (user: EmailOrUserId) => accounts.find(user),

    async createOrganization(
      operator: OperatorIdentity,
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

    async setTier(operator: OperatorIdentity, orgId: string, tier: OrganizationTier): Promise<OrganizationTier> {
      return db.transaction(async (trx) => {
        const before = await organizations.setTier(trx, orgId, tier);
        const entry = { orgId, action: 'organization.tier_changed', target: orgId, detail: { from: before, to: tier } };
        if (before !== tier) await record(trx, operator, entry);
        return before;
      });
    },

    async setDisabled(operator: OperatorIdentity, account: EmailOrUserId, isDisabled: boolean): Promise<boolean> {
      const { orgId, userId } = await accounts.find(account);
      return accessChanges.operate(orgId, async (trx) => {
        const user = await members.get(trx, orgId, userId);
        if (user.isDisabled === isDisabled) return false;
        if (isDisabled && user.isOrgAdmin) await members.requireAnotherAdmin(trx, orgId, userId);
        await members.setDisabled(trx, userId, isDisabled);
        const action = isDisabled ? 'user.disabled' : 'user.enabled';
        await record(trx, operator, { orgId, action, target: userId });
        return true;
      });
    },

    async listSessions(account: EmailOrUserId) {
      return sessions.list((await accounts.find(account)).userId);
    },

    async endSessions(operator: OperatorIdentity, account: EmailOrUserId, sessionId: string | null): Promise<string[]> {
      const { orgId, userId } = await accounts.find(account);
      return db.transaction(async (trx) => {
        const ended = await sessions.end(trx, userId, { sessionId });
        for (const target of ended) await record(trx, operator, { orgId, action: 'session.ended', target });
        return ended;
      });
    },
  };
}

export type OperatorService = ReturnType<typeof createOperatorService>;
