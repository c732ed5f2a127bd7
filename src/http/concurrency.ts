import { createPlaces } from '#src/domain/places.ts';
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
/** The rest of the places of a process is reserved for organizations that have few open. */
const UNRESERVED_PART = 3 / 4;
const RESERVED_PER_ORGANIZATION = 4;
const RETRY_AFTER_SECONDS = 5;
/** The owner of all places of a kind. */
const PROCESS = '';

const nameOf: Record<Kind, string> = { requests: 'requests', streams: 'event streams', uploads: 'uploads' };

/**
 * Limits what a user and an organization have open at once, so that queues and streams of this process stay bounded
 * for everyone else. Streams do not count as requests; uploads count as requests, too.
 * @param limits null for as many of a user and an organization as the process has
 */
export function createConcurrency(
  limits: Readonly<Record<'requests' | 'streams', ConcurrencyLimit | null> & { uploads?: ConcurrencyLimit }>,
) {
  const limitOf: Record<Kind, ConcurrencyLimit | null> = { uploads: UPLOAD_LIMIT, ...limits };
  const openOf = { requests: createPlaces(), streams: createPlaces(), uploads: createPlaces() };

  return {
    /** @returns gives the place back. Throws `rate_limited`, and `service_unavailable` where the process has no place left. */
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
      if (open.of(PROCESS) >= part * (MAX_OF_PROCESS[kind] ?? Number.POSITIVE_INFINITY)) {
        const detail = `This server has too many ${nameOf[kind]} open.`;
        throw appError('service_unavailable', { detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
      }
      return open.take(userId, orgId, PROCESS);
    },
  };
}

export type Concurrency = ReturnType<typeof createConcurrency>;

function refusal(detail: string): Error {
  return appError('rate_limited', { detail, retryAfterSeconds: RETRY_AFTER_SECONDS });
}
