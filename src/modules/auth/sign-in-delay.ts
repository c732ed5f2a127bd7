import type { Knex } from 'knex';
import { NIL } from 'uuid';
import type { RateLimit } from '#src/domain/access/limits.ts';
import { appError } from '#src/errors.ts';
import type { RateLimiter } from '#src/ports/limits.ts';
import type { Account, Client } from './auth.model.ts';
import { createSessionsRepository, networkHashOf } from './sessions.repository.ts';

const limitName = 'login_account';

/**
 * Slows down guessing at the password of one account from many networks. Unknown emails are delayed in the same way, so
 * that a delay does not show that an account exists. A network in which the user has opened a session during the last
 * month is exempt: otherwise anybody could lock a user out by guessing on.
 */
export function createSignInDelay(deps: {
  db: Knex;
  rateLimiter: Pick<RateLimiter, 'takeWithBackoff' | 'reset'>;
  /** Failures without a delay, and the longest delay; null switches delays off. */
  limit: RateLimit | null;
}) {
  const { db, rateLimiter, limit } = deps;

  return {
    /** Counts an attempt as a failure until {@link reset}. Throws `rate_limited`. */
    async take(email: string, account: Account | undefined, { network }: Client): Promise<void> {
      if (limit === null) return;
      // Also for nobody, so that both take the same time.
      const userId = account?.userId ?? NIL;
      if (await createSessionsRepository(db).isKnownNetwork(userId, networkHashOf(userId, network))) return;
      const { isAllowed, waitSeconds } = await rateLimiter.takeWithBackoff(limitName, email, limit);
      if (isAllowed) return;
      throw appError('rate_limited', {
        detail: `Too many failed sign-ins for this email. Try again in ${waitSeconds} s, or where you have signed in before.`,
        retryAfterSeconds: waitSeconds,
      });
    },

    /** Forgets the failures after a success. */
    async reset(email: string): Promise<void> {
      if (limit !== null) await rateLimiter.reset(limitName, email);
    },
  };
}

export type SignInDelay = ReturnType<typeof createSignInDelay>;
