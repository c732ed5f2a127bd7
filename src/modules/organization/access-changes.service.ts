import type { Db } from '#src/ports/database.ts';
import type { Places, TierLimitsService } from './tier-limits.service.ts';

/** Who belongs to an organization, and what he may do there: one change at a time in each. */
export function createAccessChangesService(deps: { db: Db; limits: Pick<TierLimitsService, 'lock'> }) {
  const listeners: ((orgId: string) => void)[] = [];

  return {
    /**
     * Runs a change of members, roles or teams alone in its organization, and then lets this process forget what it
     * remembers of who may do what; other processes do so within seconds by themselves.
     */
    async change<Result>(orgId: string, work: (trx: Db, places: Places) => Promise<Result>): Promise<Result> {
      const result = await deps.db.transaction(async (trx) => work(trx, await deps.limits.lock(trx, orgId)));
      for (const listener of listeners) listener(orgId);
      return result;
    },

    /** Calls `listener` after each change that this process has made. */
    listen(listener: (orgId: string) => void): void {
      listeners.push(listener);
    },
  };
}

export type AccessChangesService = ReturnType<typeof createAccessChangesService>;
