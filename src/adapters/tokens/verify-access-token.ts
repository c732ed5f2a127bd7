import { type KeyObject, verify } from 'node:crypto';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import type { VerifiedToken } from '#src/ports/access-tokens.ts';

/** More than we sign and less than a header may have: what is longer is not looked at. */
const maxTokenLength = 8_192;
/** So far may the clock of the replica that signed be ahead of ours. */
const maxSkewSeconds = 60;

/** Everything else in a header is not read: above all `jku`, `x5u` and `jwk`, by which a token would name its own key. */
const headerSchema = z.object({
  alg: z.literal('RS256'),
  typ: z.literal('at+jwt'),
  kid: z.string(),
  crit: z.undefined().optional(),
});

export type TokenVerifier = (token: string) => VerifiedToken;

/**
 * Checks access tokens in the calling thread, which takes tens of microseconds. On the thread pool, where an
 * asynchronous check runs, it would wait behind the hashing of passwords.
 */
export function createTokenVerifier(options: {
  issuer: string;
  /** Public keys by their ids. */
  keys: ReadonlyMap<string, KeyObject>;
}): TokenVerifier {
  const claimsSchema = z.object({
    iss: z.literal(options.issuer),
    aud: z.literal(options.issuer),
    sub: z.guid(),
    sid: z.guid(),
    jti: z.string().min(1),
    iat: z.int(),
    exp: z.int(),
    nbf: z.int().optional(),
  });

  return (token) => {
    if (token.length > maxTokenLength) throw refusal();
    const parts = token.split('.');
    const [header, payload, signature] = parts.map(decode);
    if (parts.length !== 3 || !header || !payload || !signature) throw refusal();

    const { kid } = headerSchema.safeParse(parseJson(header)).data ?? {};
    const key = kid === undefined ? undefined : options.keys.get(kid);
    if (key === undefined) throw refusal();
    const signed = Buffer.from(token.slice(0, token.lastIndexOf('.')));
    if (!verify('RSA-SHA256', signed, key, signature)) throw refusal();

    const claims = claimsSchema.safeParse(parseJson(payload)).data;
    if (claims === undefined) throw refusal();
    const now = Date.now() / 1_000;
    if (claims.exp <= now) throw refusal('The access token has expired.');
    if (Math.max(claims.iat, claims.nbf ?? claims.iat) > now + maxSkewSeconds) throw refusal();
    return { userId: claims.sub, sessionId: claims.sid, expiresAtMs: claims.exp * 1_000 };
  };
}

function refusal(detail = 'The access token is not valid.') {
  return appError('invalid_token', { detail });
}

/** One text for one value: bits and characters that a decoder would pass over are refused. */
function decode(part: string): Buffer | undefined {
  const bytes = Buffer.from(part, 'base64url');
  return bytes.toString('base64url') === part ? bytes : undefined;
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return undefined;
  }
}
