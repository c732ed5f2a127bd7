import type { ConcurrencyLimit } from '#src/domain/rate-limits.ts';
import type { Actor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';

type Kind = 'requests' | 'streams';

/** Event streams of all organizations: each takes some 30 KB and a heartbeat. */
const MAX_STREAMS = 5_000;
const RETRY_AFTER_SECONDS = 5;

const nameOf: Record<Kind, string> = { requests: 'requests', streams: 'event streams' };

/**
 * Limits what a user and an organization have open at once, so that queues and streams of this process stay bounded
 * for everyone else. Streams do not count as requests.
 * @param limits null switches a limit off
 */
export function createConcurrency(limits: Readonly<Record<Kind, ConcurrencyLimit | null>>) {
  const open = { requests: new Map<string, number>(), streams: new Map<string, number>() };
  let streams = 0;

  return {
    /** @returns gives the place back. Throws `rate_limited`. */
    take(kind: Kind, { userId, orgId }: Pick<Actor, 'userId' | 'orgId'>): () => void {
      const limit = limits[kind];
      if (limit === null) return () => undefined;
      const counts = open[kind];
      const count = (owner: string) => counts.get(owner) ?? 0;
      if (count(userId) >= limit.perUser) {
        throw refusal(`You have ${limit.perUser} ${nameOf[kind]} open, and no more are allowed at once.`);
      }
      if (count(orgId) >= limit.perOrganization) {
        throw refusal(
          `Your organization has ${limit.perOrganization} ${nameOf[kind]} open, and no more are allowed at once.`,
        );
      }
      if (kind === 'streams' && streams >= MAX_STREAMS) throw refusal('This server has too many event streams open.');
      const owners = [userId, orgId];
      for (const owner of owners) counts.set(owner, count(owner) + 1);
      if (kind === 'streams') streams += 1;
      return () => {
        if (kind === 'streams') streams -= 1;
        for (const owner of owners) {
          if (count(owner) > 1) counts.set(owner, count(owner) - 1);
          else counts.delete(owner);
        }
      };
    },
  };
}

export type Concurrency = ReturnType<typeof createConcurrency>;

function refusal(detail: string): Error {
  return appError('rate_limited', { detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
}
