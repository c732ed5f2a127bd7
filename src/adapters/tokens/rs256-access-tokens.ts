import { createHash, createPrivateKey, createPublicKey, type KeyObject, randomUUID } from 'node:crypto';
import { SignJWT } from 'jose';
import { z } from 'zod';
import type { AccessTokens } from '#src/ports/access-tokens.ts';
import { createTokenVerifier } from './verify-access-token.ts';

const publicJwk = z.object({ kty: z.literal('RSA'), n: z.string(), e: z.string() });
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
  const byId = new Map(all.map((key) => [key.jwk.kid, key]));
  const verify = createTokenVerifier({ issuer, keys: new Map([...byId].map(([kid, { key }]) => [kid, key])) });

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

    verify,

    keySet: () => ({ keys: Array.from(byId.values(), ({ jwk }) => jwk) }),
  };
}

function published(key: KeyObject) {
  const { kty, n, e } = publicJwk.parse(key.export({ format: 'jwk' }));
  // RFC 7638: the required members in alphabetical order, without spaces.
  const kid = createHash('sha256').update(JSON.stringify({ e, kty, n })).digest('base64url');
  return { key, jwk: { kty, use: 'sig', alg: 'RS256', kid, n, e } as const };
}
