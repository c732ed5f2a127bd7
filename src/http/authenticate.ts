import { createHash } from 'node:crypto';
import type { Actor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import { createExpiringCache } from './expiring-cache.ts';

/** Roles and teams are the database's; this is how old they may be. */
const actorMaxAgeMs = 5_000;
const maxCachedTokens = 20_000;
const maxCachedActors = 10_000;

export type Authenticate = (authorization: string | undefined) => Promise<Actor>;

export type AuthenticateDeps = {
  /** Checks signature, type, issuer, audience and expiry; rejects with `invalid_token`. */
  verifyToken: (token: string) => Promise<{ userId: string; expiresAtMs: number }>;
  /** The user as he is now; null when he is disabled, deleted, or in no organization any more. */
  findActor: (userId: string) => Promise<Actor | null>;
};

/**
 * Who sends a request. The token says only which user it is: what he may do is read from Postgres, so that a disabled
 * user or a taken role counts within seconds, whatever his token still claims.
 */
export function createAuthenticate({ verifyToken, findActor }: AuthenticateDeps): Authenticate {
  const tokens = createExpiringCache<string>(maxCachedTokens);
  const actors = createExpiringCache<Actor | null>(maxCachedActors);

  return async (authorization) => {
    const token = /^Bearer +([\w.~+/-]+=*)$/i.exec(authorization ?? '')?.[1];
    if (token === undefined) {
      throw appError('invalid_token', { detail: 'Send an access token as "Authorization: Bearer <token>".' });
    }
    // The cache holds no tokens, only their hashes.
    const userId = await tokens.get(createHash('sha256').update(token).digest('base64'), async () => {
      const verified = await verifyToken(token);
      return { value: verified.userId, expiresAtMs: verified.expiresAtMs };
    });
    const actor = await actors.get(userId, async () => ({
      value: await findActor(userId),
      expiresAtMs: Date.now() + actorMaxAgeMs,
    }));
    if (actor === null) throw appError('invalid_token', { detail: 'The account of this token is not active.' });
    return actor;
  };
}
