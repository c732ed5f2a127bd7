import { createHash, createPrivateKey, createPublicKey, type KeyObject, randomUUID } from 'node:crypto';
import { createVerifier, TokenError } from 'fast-jwt';
import { SignJWT } from 'jose';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import type { AccessTokens } from '#src/ports/access-tokens.ts';

const publicJwk = z.object({ kty: z.literal('RSA'), n: z.string(), e: z.string() });
const tokenHeader = z.object({ kid: z.string() });
const tokenClaims = z.object({ sub: z.guid(), sid: z.guid() });
/** Per key. A cached payload with the maximum number of teams is 8 kB, so 40 MB at most. */
const maxCachedTokens = 5_000;
/** Proxies refuse headers above 8 kB. The claims are a hint, so that of very many teams the first ones do. */
const maxTeamsInClaims = 50;

/**
 * Access tokens, signed by one RSA key and accepted from it and from `verifyKeyPems`, the keys before and after it.
 * The service is issuer and audience at once.
 */
export function createRs256AccessTokens(options: {
  privateKeyPem: string;
  verifyKeyPems: readonly string[];
  issuer: string;
  lifetimeSeconds: number;
}): AccessTokens {
  const { issuer, lifetimeSeconds } = options;
  const privateKey = createPrivateKey(options.privateKeyPem);
  const own = published(createPublicKey(privateKey));
  const all = [own, ...options.verifyKeyPems.map((pem) => published(createPublicKey(pem)))];
  const byId = new Map(all.map((key) => [key.jwk.kid, { ...key, verify: verifierOf(key.key, issuer) }]));

  return {
    lifetimeSeconds,

    sign: (claims) =>
      new SignJWT({
        sid: claims.sessionId,
        org_id: claims.orgId,
        team_ids: claims.teamIds.slice(0, maxTeamsInClaims),
        team_admin_of: claims.teamAdminOf.slice(0, maxTeamsInClaims),
        is_org_admin: claims.isOrgAdmin,
        tier: claims.tier,
      })
        .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid: own.jwk.kid })
        .setIssuer(issuer)
        .setAudience(issuer)
        .setSubject(claims.userId)
        .setJti(randomUUID())
        .setIssuedAt()
        .setExpirationTime(`${lifetimeSeconds}s`)
        .sign(privateKey),

    verify(token) {
      const verifyWithKey = byId.get(keyIdOf(token) ?? '')?.verify;
      if (verifyWithKey === undefined) throw refusal();
      try {
        const claims = tokenClaims.parse(verifyWithKey(token));
        return { userId: claims.sub, sessionId: claims.sid };
      } catch (error) {
        if (error instanceof z.ZodError) throw refusal();
        if (!(error instanceof TokenError)) throw error;
        throw error.code === TokenError.codes.expired ? refusal('The access token has expired.') : refusal();
      }
    },

    keySet: () => ({ keys: Array.from(byId.values(), ({ jwk }) => jwk) }),
  };
}

/**
 * Checks tokens of one key in the calling thread, which takes tens of microseconds: on the thread pool, where jose
 * checks, it would wait behind password hashing. The cache is keyed by the hash of the token.
 */
function verifierOf(key: KeyObject, issuer: string): (token: string) => unknown {
  return createVerifier({
    key: key.export({ type: 'spki', format: 'pem' }).toString(),
    algorithms: ['RS256'],
    checkTyp: 'at+jwt',
    allowedIss: issuer,
    allowedAud: issuer,
    // Without this, fast-jwt accepts a token that lacks a claim which it would otherwise check.
    requiredClaims: ['iss', 'aud', 'sub', 'sid', 'jti', 'iat', 'exp'],
    cache: maxCachedTokens,
  });
}

/** Only selects the key; fast-jwt's own key lookup would make every check asynchronous. */
function keyIdOf(token: string): string | undefined {
  try {
    const header: unknown = JSON.parse(Buffer.from(token.split('.', 1).join(), 'base64url').toString());
    return tokenHeader.safeParse(header).data?.kid;
  } catch {
    return undefined;
  }
}

function refusal(detail = 'The access token is not valid.') {
  return appError('invalid_token', { detail });
}

function published(key: KeyObject) {
  const { kty, n, e } = publicJwk.parse(key.export({ format: 'jwk' }));
  // RFC 7638: the required members in alphabetical order, without spaces.
  const kid = createHash('sha256').update(JSON.stringify({ e, kty, n })).digest('base64url');
  return { key, jwk: { kty, use: 'sig', alg: 'RS256', kid, n, e } as const };
}
