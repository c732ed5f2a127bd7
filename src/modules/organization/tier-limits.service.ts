import type { Knex } from 'knex';
import type { Tier, TierLimits } from '#src/domain/access/limits.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import type { FairQueue } from '#src/ports/limits.ts';
import { createOrganizationRepository } from './organization.repository.ts';

/** What is counted, or summed up in bytes, against a tier; and how it is said that there is no more room. */
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

/** The room that an organization has. Nobody else takes of it until the transaction ends. */
export type Places = {
  /** Throws the limit's own code when `coming` more do not fit beside those that are `used`. */
  take(limit: keyof typeof errorOfLimit, used: number, coming?: number): void;
};

/** The upper bounds of an organization, from its tier and the deployment's table. */
export function createTierLimitsService(deps: {
  db: Knex;
  tierLimits: Readonly<Record<Tier, TierLimits>>;
  inTurn: FairQueue;
}) {
  return {
    async of(orgId: string): Promise<TierLimits> {
      const { tier } = await createOrganizationRepository(deps.db).get(orgId);
      return deps.tierLimits[tier];
    },

    /**
     * A transaction that will {@link lock} the organization. Those of one organization run one after the other in any
     * case; without turns each that waits for the lock would hold a connection, until other organizations find none.
     */
    transaction<Result>(orgId: string, work: (trx: Knex) => Promise<Result>): Promise<Result> {
      return deps.inTurn(orgId, () => deps.db.transaction(work));
    },

    /**
     * Locks the organization's row until the end of `trx`. Whoever counts rows before an insert calls this before every
     * other lock, so that two inserts cannot both take the last place, nor wait for each other for ever. Throws
     * `invalid_token` when the organization was deleted meanwhile: nothing may come to it any more.
     */
    async lock(trx: Knex, orgId: string): Promise<Places> {
      const tier = await createOrganizationRepository(trx).lockTier(orgId);
      if (tier === undefined) throw appError('invalid_token', { detail: 'The organization is gone.' });
      const limits = deps.tierLimits[tier];
      return {
        take(limit, used, coming = 1) {
          if (coming <= 0 || used + coming <= limits[limit]) return;
          throw appError(errorOfLimit[limit], { detail: `The organization's tier allows ${limits[limit]}.` });
        },
      };
    },
  };
}

export type TierLimitsService = ReturnType<typeof createTierLimitsService>;
