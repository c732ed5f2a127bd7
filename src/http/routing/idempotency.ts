import { createHmac } from 'node:crypto';
import { canonicalJson } from '#src/domain/text/canonical-json.ts';
import { appError } from '#src/errors.ts';
import type { IdempotencyKey, IdempotencyStore, StoredResponse } from '#src/ports/idempotency-store.ts';

/** A key of a process that died is free after the lease; a running process renews it. */
const leaseSeconds = 20;
const renewEveryMs = 5_000;

/** Statuses that are never stored, because a later attempt may succeed. */
const neverStored = new Set([401, 409, 429]);

/**
 * Maximum size of a stored response in characters. Larger ones are not stored, because they bypass all quotas; a repeated
 * request then finds the created resource, as after a crash.
 */
const maxStoredLength = 64 * 1024;

export const idempotencyKeyPattern = /^[\x21-\x7e]{1,255}$/;

export function readIdempotencyKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header === 'string' && idempotencyKeyPattern.test(header)) return header;
  throw appError('malformed_request', { detail: 'Idempotency-Key must have 1 to 255 visible ASCII characters.' });
}

/**
 * HMAC of a request's canonical JSON, equal for equal requests. Keyed, because it is stored for a day and could otherwise be
 * used to verify guesses of what a user sent.
 */
export function fingerprintOf(key: Buffer, request: unknown): string {
  return createHmac('sha256', key).update(canonicalJson(request)).digest('hex');
}

function isStorable({ status, body }: StoredResponse): boolean {
  if (status >= 500 || neverStored.has(status)) return false;
  if (body.kind === 'events' && body.events.at(-1)?.event === 'error') return false;
  return JSON.stringify(body).length <= maxStoredLength;
}

/**
 * Runs `work` for one request per key at a time and stores its response; repeated requests get the stored response. If the
 * first request was interrupted, a repeated one gets the same id for the resource to create. `work` resolves for rejected
 * requests too, and rejects only if nothing should be stored.
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
    // If storing fails, only the replay is lost; the request has taken effect.
    const settled =
      response !== undefined && isStorable(response)
        ? store.complete(key, leaseOwner, response)
        : store.release(key, leaseOwner);
    await settled.catch(onLost);
  }
}
