import type { Knex } from 'knex';
import { can } from '#src/domain/access/policy.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { AccountsService } from '#src/modules/auth/accounts.service.ts';
import type { Places, TierLimitsService } from './tier-limits.service.ts';

/** Whom a change is made for. */
type Whose = Pick<RequestActor, 'orgId' | 'userId' | 'requestId'>;
/** `caller` is who asks for the change, as he is while nobody else can change it. */
type Work<Result> = (trx: Knex, caller: RequestActor, places: Places) => Promise<Result>;

/** Who belongs to an organization, and what he may do there: one change at a time in each. */
export function createAccessChangesService(deps: {
  accounts: Pick<AccountsService, 'findActor'>;
  limits: Pick<TierLimitsService, 'transaction' | 'lock'>;
}) {
  const listeners: ((orgId: string) => void)[] = [];

  /**
   * Runs a change of members, roles or teams alone in its organization, and then lets this process forget what it
   * remembers of who may do what; other processes do so within seconds by themselves. Throws `invalid_token` for a
   * caller who has lost his account while he waited.
   */
  async function change<Result>({ orgId, userId, requestId }: Whose, work: Work<Result>): Promise<Result> {
    return operate(orgId, async (trx, places) => {
      const caller = await deps.accounts.findActor(trx, userId);
      if (caller === undefined) throw appError('invalid_token', { detail: 'The account is gone.' });
      return work(trx, { ...caller, requestId }, places);
    });
  }

  /** The same for the operator of the installation, who is nobody's member. */
  async function operate<Result>(orgId: string, work: (trx: Knex, places: Places) => Promise<Result>): Promise<Result> {
    const result = await deps.limits.transaction(orgId, async (trx) => work(trx, await deps.limits.lock(trx, orgId)));
    for (const listener of listeners) listener(orgId);
    return result;
  }

  return {
    change,

    operate,

    /** The same for a caller who administers the organization. Throws `forbidden` for one who does not any more. */
    administer<Result>(whose: Whose, work: Work<Result>): Promise<Result> {
      return change(whose, (trx, caller, places) => {
        if (can(caller, 'organization:administer', caller)) return work(trx, caller, places);
        throw appError('forbidden', { detail: 'Only an admin of the organization may do this.' });
      });
    },

    /** Calls `listener` after each change that this process has made. */
    listen(listener: (orgId: string) => void): void {
      listeners.push(listener);
    },
  };
}

export type AccessChangesService = ReturnType<typeof createAccessChangesService>;
