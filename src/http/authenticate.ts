import { createHash } from 'node:crypto';
import type { Actor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { Caller } from '#src/ports/access-tokens.ts';
import { createExpiringCache } from './expiring-cache.ts';

/** Sessions, roles and teams are the database's; this is how old they may be. */
const actorMaxAgeMs = 2_000;
const maxCachedTokens = 20_000;
const maxCachedActors = 10_000;

/** The user behind a request, and the session in which he sends it. */
export type Authenticated = { actor: Actor; sessionId: string };

export type Authenticate = (authorization: string | undefined) => Promise<Authenticated>;

export type AuthenticateDeps = {
  /** Checks signature, type, issuer, audience and expiry; rejects with `invalid_token`. */
  verifyToken: (token: string) => Promise<Caller & { expiresAtMs: number }>;
  /** The user as he is now; null when he is disabled, deleted or in no organization, or his session was cut off. */
  findCaller: (caller: Caller) => Promise<Actor | null>;
};

/**
 * Who sends a request. The token says only which user it is and in which session: whether that goes on and what he may
 * do is read from Postgres, so that a logout, a disabled user or a taken role counts within seconds, whatever the token
 * still claims.
 */
export function createAuthenticate({ verifyToken, findCaller }: AuthenticateDeps): Authenticate {
  const tokens = createExpiringCache<Caller>(maxCachedTokens);
  const actors = createExpiringCache<Actor | null>(maxCachedActors);

  return async (authorization) => {
    const token = /^Bearer +([\w.~+/-]+=*)$/i.exec(authorization ?? '')?.[1];
    if (token === undefined) {
      throw appError('invalid_token', { detail: 'Send an access token as "Authorization: Bearer <token>".' });
    }
    // The cache holds no tokens, only their hashes.
    const caller = await tokens.get(createHash('sha256').update(token).digest('base64'), async () => {
      const { userId, sessionId, expiresAtMs } = await verifyToken(token);
      return { value: { userId, sessionId }, expiresAtMs };
    });
    const actor = await actors.get(caller.sessionId, async () => ({
      value: await findCaller(caller),
      expiresAtMs: Date.now() + actorMaxAgeMs,
    }));
    if (actor === null) throw appError('invalid_token', { detail: 'The session of this token is over.' });
    return { actor, sessionId: caller.sessionId };
  };
}
