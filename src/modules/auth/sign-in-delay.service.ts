import type { Knex } from 'knex';
import { NIL } from 'uuid';
import type { RateLimit } from '#src/domain/access/limits.ts';
import { appError } from '#src/errors.ts';
import type { RateLimiter } from '#src/ports/load-control.ts';
import type { Account, SignInDevice } from './auth.model.ts';
import { createSessionsRepository, hashClientNetwork } from './sessions.repository.ts';

const limitName = 'login_account';

export type SignInDelay = ReturnType<typeof createSignInDelay>;

/**
 * Slows down guessing at the password of one account from many networks. `limit` sets the number of failed sign-ins
 * with one email before delays begin, and the longest delay; null disables delays.
 */
export function createSignInDelay(
  db: Knex,
  rateLimiter: Pick<RateLimiter, 'takeWithBackoff' | 'reset'>,
  limit: RateLimit | null,
) {
  return {
    /**
     * Counts a sign-in as failed until `forgetFailures` is called. Unknown emails are delayed in the same way, so that
     * a delay does not show that an account exists. A network from which the user has opened a session during the last
     * month is exempt: otherwise an attacker could lock out the user by repeated guesses. Throws `rate_limited`.
     */
    async countAttempt(email: string, account: Account | undefined, { network }: SignInDevice): Promise<void> {
      if (limit === null) return;
      // Unknown accounts are looked up too, so that known and unknown emails take the same time.
      const userId = account?.userId ?? NIL;
      if (await createSessionsRepository(db).isKnownNetwork(userId, hashClientNetwork(userId, network))) return;
      const { isAllowed, waitSeconds } = await rateLimiter.takeWithBackoff(limitName, email, limit);
      if (isAllowed) return;
      const retry = `Try again in ${waitSeconds} s, or from a network in which you have signed in before.`;
      const detail = `Too many failed sign-ins for this email. ${retry}`;
      throw appError('rate_limited', { detail, retryAfterSeconds: waitSeconds });
    },

    async forgetFailures(email: string): Promise<void> {
      if (limit !== null) await rateLimiter.reset(limitName, email);
    },
  };
}
