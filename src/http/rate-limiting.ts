import { countedByProcess, type RateLimit, type RateLimitName } from '#src/domain/rate-limits.ts';
import { appError } from '#src/errors.ts';
import type { RateLimiter } from '#src/ports/limits.ts';
import { clientBlock, clientNetwork } from './client-network.ts';
import type { AppResponse } from './request-log.ts';

/** Counts the requests of a route: those of a network, of a user, or of a network about one email. */
export type RateLimited = { limit: RateLimitName; by: 'ip' | 'user' | 'ip_and_email' };

/** How many times the limit of one network the networks of an IPv6 /48 have together. */
const blockFactor = 10;

export type RateLimitingDeps = {
  /** Counts for all processes. */
  shared: Pick<RateLimiter, 'take'>;
  /** Counts for this process. */
  own: Pick<RateLimiter, 'take'>;
  /** Null switches a limit off. */
  limits: Readonly<Record<RateLimitName, RateLimit | null>>;
};

/** What is known of the caller so far; a limit whose subject is not known yet is left for later. */
export type Subject = { ip: string | undefined; userId: string | undefined; email: string | undefined };

export type RateLimiting = (uses: readonly RateLimited[], subject: Subject, res: AppResponse) => Promise<void>;

/**
 * Counts a request against its limits and says in its answer how they stand (the fields `RateLimit` and
 * `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers). Throws `rate_limited` beyond one of them.
 */
export function createRateLimiting({ shared, own, limits }: RateLimitingDeps): RateLimiting {
  return async (uses, subject, res) => {
    let used: { name: string; limit: RateLimit; waitSeconds: number } | undefined;
    const useUp = (name: string, limit: RateLimit, waitSeconds: number) => {
      if (waitSeconds > (used?.waitSeconds ?? 0)) used = { name, limit, waitSeconds };
    };
    for (const { limit: name, by } of uses) {
      const limit = limits[name];
      const counted = subjectOf(by, subject);
      if (limit === null || counted === undefined) continue;
      const limiter = countedByProcess.has(name) ? own : shared;
      const { isAllowed, remaining, resetSeconds } = await limiter.take(name, counted, limit);
      res.append('RateLimit-Policy', `"${name}";q=${limit.count};w=${limit.seconds}`);
      res.append('RateLimit', `"${name}";r=${remaining};t=${resetSeconds}`);
      if (!isAllowed) useUp(name, limit, resetSeconds);
      // A refused request does not count: one network must not use up the limit of its neighbours.
      const block = isAllowed && by === 'ip' ? clientBlock(subject.ip) : null;
      if (block === null) continue;
      const blockLimit = { ...limit, count: limit.count * blockFactor };
      const ofBlock = await limiter.take(name, block, blockLimit);
      if (!ofBlock.isAllowed) useUp(name, blockLimit, ofBlock.resetSeconds);
    }
    if (used === undefined) return;
    const { name, limit, waitSeconds } = used;
    throw appError('rate_limited', {
      detail: `The limit "${name}" is ${limit.count} requests in ${limit.seconds} s. Try again in ${waitSeconds} s.`,
      retryAfterSeconds: waitSeconds,
    });
  };
}

function subjectOf(by: RateLimited['by'], { ip, userId, email }: Subject): string | undefined {
  switch (by) {
    case 'ip':
      return clientNetwork(ip);
    case 'user':
      return userId;
    case 'ip_and_email':
      return email && `${clientNetwork(ip)} ${email}`;
  }
}
