import { createHash, createPrivateKey, createPublicKey, randomUUID } from 'node:crypto';
import { errors, jwtVerify, SignJWT } from 'jose';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import type { AccessTokens } from '#src/ports/access-tokens.ts';

const publicJwk = z.object({ kty: z.literal('RSA'), n: z.string(), e: z.string() });
const usedClaims = z.object({ sub: z.guid(), sid: z.guid(), exp: z.number() });

/** Access tokens signed by one RSA key. The service is issuer and audience at once. */
export function createRs256AccessTokens(options: {
  privateKeyPem: string;
  issuer: string;
  lifetimeSeconds: number;
}): AccessTokens {
  const { issuer, lifetimeSeconds } = options;
  const privateKey = createPrivateKey(options.privateKeyPem);
  const publicKey = createPublicKey(privateKey);
  const { kty, n, e } = publicJwk.parse(publicKey.export({ format: 'jwk' }));
  // RFC 7638: the required members in alphabetical order, without spaces.
  const kid = createHash('sha256').update(JSON.stringify({ e, kty, n })).digest('base64url');

  return {
    lifetimeSeconds,

    sign: (claims) =>
      new SignJWT({
        sid: claims.sessionId,
        org_id: claims.orgId,
        team_ids: claims.teamIds,
        team_admin_of: claims.teamAdminOf,
        is_org_admin: claims.isOrgAdmin,
        tier: claims.tier,
      })
        .setProtectedHeader({ alg: 'RS256', typ: 'at+jwt', kid })
        .setIssuer(issuer)
        .setAudience(issuer)
        .setSubject(claims.userId)
        .setJti(randomUUID())
        .setIssuedAt()
        .setExpirationTime(`${lifetimeSeconds}s`)
        .sign(privateKey),

    async verify(token) {
      try {
        const { payload } = await jwtVerify(
          token,
          // Only our own key: `jku`, `x5u` and `jwk` of a token are not looked at.
          (header) => {
            if (header.kid !== kid) throw new errors.JWKSNoMatchingKey();
            return publicKey;
          },
          { algorithms: ['RS256'], typ: 'at+jwt', issuer, audience: issuer, requiredClaims: ['sub', 'exp', 'jti'] },
        );
        const { sub, sid, exp } = usedClaims.parse(payload);
        return { userId: sub, sessionId: sid, expiresAtMs: exp * 1_000 };
      } catch (error) {
        const detail =
          error instanceof errors.JWTExpired ? 'The access token has expired.' : 'The access token is not valid.';
        throw appError('invalid_token', { detail, cause: error });
      }
    },

    keySet: () => ({ keys: [{ kty, use: 'sig', alg: 'RS256', kid, n, e }] }),
  };
}
