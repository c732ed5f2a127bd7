import type { Knex } from 'knex';
import type { OrganizationTier, TierLimits } from '#src/domain/access/limits.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import type { FairWorkQueue } from '#src/ports/load-control.ts';
import { createOrganizationRepository } from './organization.repository.ts';

const errorOfLimit = {
  members: 'member_limit_reached',
  agents: 'agent_limit_reached',
  draftsPerUser: 'draft_limit_reached',
  versionsPerDraft: 'version_limit_reached',
  documents: 'document_limit_reached',
  storageBytes: 'storage_quota_exceeded',
  connections: 'connection_limit_reached',
  evaluationCasesPerDay: 'evaluation_case_limit_reached',
} as const satisfies Partial<Record<keyof TierLimits, ErrorCode>>;

/**
 * Remaining quota of an organization. The organization's row is locked, so no other transaction can use the quota until
 * this one ends.
 */
export type RemainingTierQuota = {
  take(limit: keyof typeof errorOfLimit, used: number, added?: number): void;
};

export function createTierLimitsService(deps: {
  db: Knex;
  tierLimits: Readonly<Record<OrganizationTier, TierLimits>>;
  inTurn: FairWorkQueue;
}) {
  return {
    async of(orgId: string): Promise<TierLimits> {
      const { tier } = await createOrganizationRepository(deps.db).get(orgId);
      return deps.tierLimits[tier];
    },

    /**
     * Runs a transaction that will {@link lock} the organization. Transactions of one organization queue before they
     * take a database connection, because connections that only wait for the lock would exhaust the connection pool.
     */
    transaction<Result>(orgId: string, work: (trx: Knex) => Promise<Result>): Promise<Result> {
      return deps.inTurn(orgId, () => deps.db.transaction(work));
    },

    /**
     * Locks the organization's row until the end of `trx`. Call it before any other lock (to avoid deadlocks) and
     * before counting rows for a limit, so that two concurrent inserts cannot both use the last free place. Throws
     * `invalid_token` if the organization was deleted meanwhile.
     */
    async lock(trx: Knex, orgId: string): Promise<RemainingTierQuota> {
      const tier = await createOrganizationRepository(trx).lockTier(orgId);
      if (tier === undefined) throw appError('invalid_token', { detail: 'The organization was deleted.' });
      const limits = deps.tierLimits[tier];
      return {
        take(limit, used, added = 1) {
          if (added <= 0 || used + added <= limits[limit]) return;
          throw appError(errorOfLimit[limit], {
            detail: `The limit "${limit}" of the organization's tier is ${limits[limit]}.`,
          });
        },
      };
    },
  };
}

export type TierLimitsService = ReturnType<typeof createTierLimitsService>;
