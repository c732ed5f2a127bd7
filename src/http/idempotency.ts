import { createHmac } from 'node:crypto';
import { canonicalJson } from '#src/domain/canonical-json.ts';
import { appError } from '#src/errors.ts';
import type { IdempotencyKey, IdempotencyStore, StoredResponse } from '#src/ports/idempotency-store.ts';

/** How long a key stays taken after its process died, and how often a living one says so. */
const leaseSeconds = 20;
const renewEveryMs = 5_000;

/** Refusals that a later attempt may well pass: repeating the request must really repeat it. */
const neverKept = new Set([401, 409, 429]);

/**
 * Characters of an answer or of the events of a stream. Larger ones would fill the database for a day, beside every
 * quota. A request that is repeated under its key finds what the first one made, as after a crash.
 */
const maxKeptLength = 64 * 1024;

export const idempotencyKeyPattern = /^[\x21-\x7e]{1,255}$/;

export function readIdempotencyKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header === 'string' && idempotencyKeyPattern.test(header)) return header;
  throw appError('malformed_request', { detail: 'Idempotency-Key takes 1 to 255 visible ASCII characters.' });
}

/**
 * Equal for requests that ask for the same, by their canonical JSON. It is kept beside the user for a day, and a guess
 * of what was sent can be checked with the key only.
 */
export function fingerprintOf(key: Buffer, request: unknown): string {
  return createHmac('sha256', key).update(canonicalJson(request)).digest('hex');
}

function isKept({ status, body }: StoredResponse): boolean {
  if (status >= 500 || neverKept.has(status)) return false;
  if (body.kind === 'events' && body.events.at(-1)?.event === 'error') return false;
  return JSON.stringify(body).length <= maxKeptLength;
}

/**
 * Works under a key: `work` runs for one request at a time and its answer is kept; others get that answer again. A
 * request that is repeated because the first one got no answer has the same id for what it makes.
 * `work` resolves with an answer for refusals too and rejects only for what should not be kept.
 */
export async function withIdempotency(
  store: IdempotencyStore,
  key: IdempotencyKey,
  fingerprint: string,
  work: (reservedId: string) => Promise<StoredResponse>,
  onLost: (error: unknown) => void,
): Promise<{ response: StoredResponse; isReplay: boolean }> {
  const claim = await store.claim(key, fingerprint, leaseSeconds);
  switch (claim.outcome) {
    case 'stored':
      return { response: claim.response, isReplay: true };
    case 'in_flight':
      throw appError('idempotency_in_flight', { retryAfterSeconds: 1 });
    case 'other_request':
      throw appError('idempotency_key_reused');
    case 'claimed':
  }

  const { leaseOwner, reservedId } = claim;
  const lease = setInterval(() => void store.renew(key, leaseOwner, leaseSeconds).catch(onLost), renewEveryMs);
  let response: StoredResponse | undefined;
  try {
    response = await work(reservedId);
    return { response, isReplay: false };
  } finally {
    clearInterval(lease);
    // The effect is there whatever happens to the key: a store that fails now costs only the replay.
    const settled =
      response !== undefined && isKept(response)
        ? store.complete(key, leaseOwner, response)
        : store.release(key, leaseOwner);
    await settled.catch(onLost);
  }
}
