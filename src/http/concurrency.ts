import type { ConcurrencyLimit } from '#src/domain/rate-limits.ts';
import type { Actor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';

type Kind = 'requests' | 'streams' | 'uploads';

/**
 * Of all organizations. A stream takes some 30 KB and a heartbeat; an upload some 300 KB, and with S3 two parts of 5 MB
 * in the temporary folder.
 */
const MAX_OF_PROCESS: Partial<Record<Kind, number>> = { streams: 5_000, uploads: 256 };
/** Browsers send six requests at once over HTTP/1.1 and about a hundred over HTTP/2; bulk clients 8 to 32. */
const UPLOAD_LIMIT: ConcurrencyLimit = { perUser: 64, perOrganization: 128 };
/** The last quarter of the uploads of a process is reserved for organizations that have few open. */
const UNRESERVED_UPLOADS = 192;
const RESERVED_PER_ORGANIZATION = 4;
const RETRY_AFTER_SECONDS = 5;

const nameOf: Record<Kind, string> = { requests: 'requests', streams: 'event streams', uploads: 'uploads' };

/**
 * Limits what a user and an organization have open at once, so that queues and streams of this process stay bounded
 * for everyone else. Streams do not count as requests; uploads count as requests, too.
 * @param limits null switches a limit off
 */
export function createConcurrency(
  limits: Readonly<Record<'requests' | 'streams', ConcurrencyLimit | null> & { uploads?: ConcurrencyLimit }>,
) {
  const limitOf: Record<Kind, ConcurrencyLimit | null> = { uploads: UPLOAD_LIMIT, ...limits };
  const openOf = {
    requests: new Map<string, number>(),
    streams: new Map<string, number>(),
    uploads: new Map<string, number>(),
  };
  const totals: Record<Kind, number> = { requests: 0, streams: 0, uploads: 0 };

  return {
    /** @returns gives the place back. Throws `rate_limited`, and `service_unavailable` where the process has no place left. */
    take(kind: Kind, { userId, orgId }: Pick<Actor, 'userId' | 'orgId'>): () => void {
      const limit = limitOf[kind];
      if (limit === null) return () => undefined;
      const counts = openOf[kind];
      const count = (owner: string) => counts.get(owner) ?? 0;
      if (count(userId) >= limit.perUser) {
        throw refusal(`You have ${limit.perUser} ${nameOf[kind]} open, and no more are allowed at once.`);
      }
      if (count(orgId) >= limit.perOrganization) {
        throw refusal(
          `Your organization has ${limit.perOrganization} ${nameOf[kind]} open, and no more are allowed at once.`,
        );
      }
      const hasMany = kind === 'uploads' && count(orgId) >= RESERVED_PER_ORGANIZATION;
      const maxOfProcess = hasMany ? UNRESERVED_UPLOADS : (MAX_OF_PROCESS[kind] ?? Number.POSITIVE_INFINITY);
      if (totals[kind] >= maxOfProcess) {
        const detail = `This server has too many ${nameOf[kind]} open.`;
        throw appError('service_unavailable', { detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
      }
      const owners = [userId, orgId];
      for (const owner of owners) counts.set(owner, count(owner) + 1);
      totals[kind] += 1;
      return () => {
        totals[kind] -= 1;
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
