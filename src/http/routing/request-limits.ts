import {
  type ConcurrencyLimit,
  createConcurrencyCounter,
  type RateLimit,
  type RateLimitName,
  rateLimitsCountedInMemory,
} from '#src/domain/access/limits.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { RateLimiter } from '#src/ports/load-control.ts';
import { networkOfClientAddress, sitePrefixOfIpv6Address } from '../request/headers.ts';
import type { AppResponse } from '../server/middleware.ts';

export type RateLimitRule = { limit: RateLimitName; by: 'ip' | 'user' | 'ip_and_email' };

/** The rate limit of an IPv6 /48 is this many times the limit of one /56 network in it. */
const blockFactor = 10;

type RateLimitCheckDeps = {
  shared: Pick<RateLimiter, 'take'>;
  own: Pick<RateLimiter, 'take'>;
  limits: Readonly<Record<RateLimitName, RateLimit | null>>;
};

/**
 * Values by which rate limits count requests. A limit is skipped if its value is undefined, such as `userId` on a
 * public route.
 */
type RateLimitSubject = { ip: string | undefined; userId: string | undefined; email: string | undefined };

export type RateLimitCheck = (
  uses: readonly RateLimitRule[],
  subject: RateLimitSubject,
  res: AppResponse,
) => Promise<void>;

/**
 * Counts a request against its limits and reports them in the response headers `RateLimit` and `RateLimit-Policy`
 * (draft-ietf-httpapi-ratelimit-headers). Throws `rate_limited` if one is exceeded.
 */
export function createRateLimitCheck({ shared, own, limits }: RateLimitCheckDeps): RateLimitCheck {
  return async (uses, subject, res) => {
    let used: { name: string; limit: RateLimit; waitSeconds: number } | undefined;
    const useUp = (name: string, limit: RateLimit, waitSeconds: number) => {
      if (waitSeconds > (used?.waitSeconds ?? 0)) used = { name, limit, waitSeconds };
    };
    for (const { limit: name, by } of uses) {
      const limit = limits[name];
      const counted = subjectOf(by, subject);
      if (limit === null || counted === undefined) continue;
      const limiter = rateLimitsCountedInMemory.has(name) ? own : shared;
      const { isAllowed, remaining, resetSeconds } = await limiter.take(name, counted, limit);
      res.append('RateLimit-Policy', `"${name}";q=${limit.count};w=${limit.seconds}`);
      res.append('RateLimit', `"${name}";r=${remaining};t=${resetSeconds}`);
      if (!isAllowed) useUp(name, limit, resetSeconds);
      // Requests that the /56 network's limit rejects do not count for its /48, so that one network cannot use up the
      // limit of its neighbours.
      const block = isAllowed && by === 'ip' ? sitePrefixOfIpv6Address(subject.ip) : null;
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

function subjectOf(by: RateLimitRule['by'], { ip, userId, email }: RateLimitSubject): string | undefined {
  switch (by) {
    case 'ip':
      return networkOfClientAddress(ip);
    case 'user':
      return userId;
    case 'ip_and_email':
      return email && `${networkOfClientAddress(ip)} ${email}`;
  }
}

type Kind = 'requests' | 'streams' | 'uploads';

/** Limits per process. A stream needs 30 KB of memory; an upload 300 KB, and with S3 its size in temporary files. */
const PROCESS_LIMITS: Partial<Record<Kind, number>> = { streams: 5_000, uploads: 256 };
/** Browsers send six concurrent requests over HTTP/1.1 and about a hundred over HTTP/2; bulk clients 8 to 32. */
const UPLOAD_LIMIT: ConcurrencyLimit = { perUser: 64, perOrganization: 128 };
/**
 * Share of a process's slots that every organization may use. The rest is for organizations that hold fewer than
 * `RESERVED_PER_ORGANIZATION` slots.
 */
const UNRESERVED_PART = 3 / 4;
const RESERVED_PER_ORGANIZATION = 4;
const RETRY_AFTER_SECONDS = 5;
const PROCESS = '';

const nameOf: Record<Kind, string> = { requests: 'requests', streams: 'event streams', uploads: 'uploads' };

/** Limits concurrent requests, event streams and uploads (which also count as requests). Null: no limit. */
export function createConcurrencyLimiter(
  limits: Readonly<Record<'requests' | 'streams', ConcurrencyLimit | null> & { uploads?: ConcurrencyLimit }>,
) {
  const limitOf: Record<Kind, ConcurrencyLimit | null> = { uploads: UPLOAD_LIMIT, ...limits };
  const openOf = {
    requests: createConcurrencyCounter(),
    streams: createConcurrencyCounter(),
    uploads: createConcurrencyCounter(),
  };

  return {
    /**
     * Takes a slot; the result releases it. Throws `rate_limited`, or `service_unavailable` if the process is full.
     */
    take(kind: Kind, { userId, orgId }: Pick<Actor, 'userId' | 'orgId'>): () => void {
      const open = openOf[kind];
      const limit = limitOf[kind] ?? { perUser: Number.POSITIVE_INFINITY, perOrganization: Number.POSITIVE_INFINITY };
      if (open.of(userId) >= limit.perUser) {
        throw refusal(`You have ${limit.perUser} ${nameOf[kind]} open, and no more are allowed at once.`);
      }
      if (open.of(orgId) >= limit.perOrganization) {
        throw refusal(
          `Your organization has ${limit.perOrganization} ${nameOf[kind]} open, and no more are allowed at once.`,
        );
      }
      const part = open.of(orgId) >= RESERVED_PER_ORGANIZATION ? UNRESERVED_PART : 1;
      if (open.of(PROCESS) >= part * (PROCESS_LIMITS[kind] ?? Number.POSITIVE_INFINITY)) {
        const detail = `This server has too many ${nameOf[kind]} open.`;
        throw appError('service_unavailable', { detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
      }
      return open.take(userId, orgId, PROCESS);
    },
  };
}

export type ConcurrencyLimiter = ReturnType<typeof createConcurrencyLimiter>;

function refusal(detail: string): Error {
  return appError('rate_limited', { detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
}
