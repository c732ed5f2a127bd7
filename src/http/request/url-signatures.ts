import { createHmac, timingSafeEqual } from 'node:crypto';
import { parse, stringify } from 'uuid';
import { canonicalJson } from '#src/domain/text/canonical-json.ts';
import { appError } from '#src/errors.ts';
import type { Caller } from '#src/ports/identity.ts';

const UUID_BYTES = 16;
const EXPIRY_BYTES = 6;
const CLAIM_BYTES = 2 * UUID_BYTES + EXPIRY_BYTES;

/** What a signed URL gives access to: one route, with these parameters and no others. */
export type SignedTarget = { operationId: string; params: unknown; query: unknown };

export type UrlSignatures = ReturnType<typeof createUrlSignatures>;

/**
 * Signs URLs that read a file with the rights of a session. A signature is base64url of `<user id><session id><expiry in
 * ms><HMAC-SHA256>`; it holds no rights, so that they are those of the user at each use.
 */
export function createUrlSignatures({ key, lifetimeSeconds }: { key: Buffer; lifetimeSeconds: number }) {
  const macOf = (claims: Buffer, target: SignedTarget) =>
    createHmac('sha256', key).update(claims).update(canonicalJson(target)).digest();

  return {
    lifetimeSeconds,

    sign({ userId, sessionId }: Caller, target: SignedTarget): string {
      const expiry = Buffer.alloc(EXPIRY_BYTES);
      expiry.writeUIntBE(Date.now() + lifetimeSeconds * 1_000, 0, EXPIRY_BYTES);
      const claims = Buffer.concat([parse(userId), parse(sessionId), expiry]);
      return Buffer.concat([claims, macOf(claims, target)]).toString('base64url');
    },

    /** Returns the session that signed the URL. Throws `file_url_invalid` and `file_url_expired`. */
    open(signature: string, target: SignedTarget): Caller {
      const bytes = Buffer.from(signature, 'base64url');
      const [claims, mac] = [bytes.subarray(0, CLAIM_BYTES), bytes.subarray(CLAIM_BYTES)];
      const expected = macOf(claims, target);
      if (mac.length !== expected.length || !timingSafeEqual(mac, expected)) throw appError('file_url_invalid');
      if (claims.readUIntBE(2 * UUID_BYTES, EXPIRY_BYTES) <= Date.now()) throw appError('file_url_expired');
      return {
        userId: stringify(claims.subarray(0, UUID_BYTES)),
        sessionId: stringify(claims.subarray(UUID_BYTES, 2 * UUID_BYTES)),
      };
    },
  };
}
