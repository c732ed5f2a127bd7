import type { Actor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { Caller } from '#src/ports/access-tokens.ts';
import { createExpiringCache } from './expiring-cache.ts';

/** Sessions, roles and teams are the database's; this is how old they may be. */
const actorMaxAgeMs = 2_000;
const maxCachedActors = 10_000;

/**
 * The user behind a request, and the session in which he sends it. `actorNow` is the user as he has become meanwhile,
 * whether his token has expired or not; it throws `invalid_token` once the session is over.
 */
export type Authenticated = { actor: Actor; sessionId: string; actorNow: () => Promise<Actor> };

export type Authenticate = (authorization: string | undefined) => Promise<Authenticated>;

export type AuthenticateDeps = {
  /** Checks signature, type, issuer, audience and expiry; throws `invalid_token`. */
  verifyToken: (token: string) => Caller;
  /** The user as he is now; null when he is disabled, deleted or in no organization, or his session was cut off. */
  findCaller: (caller: Caller) => Promise<Actor | null>;
  /** Takes what is to be called when this process has changed who may do what in an organization. */
  onAccessChange: (listener: (orgId: string) => void) => void;
};

/**
 * Who sends a request. The token says only which user it is and in which session: whether that goes on and what he may
 * do is read from Postgres, so that a logout, a disabled user or a taken role counts within seconds, whatever the token
 * still claims.
 */
export function createAuthenticate({ verifyToken, findCaller, onAccessChange }: AuthenticateDeps): Authenticate {
  const actors = createExpiringCache<Actor | null>(maxCachedActors);
  onAccessChange((orgId) => actors.forget((actor) => actor?.orgId === orgId));

  async function findActor(caller: Caller): Promise<Actor> {
    const actor = await actors.get(`${caller.sessionId} ${caller.userId}`, async () => {
      const expiresAtMs = Date.now() + actorMaxAgeMs;
      return { value: await findCaller(caller), expiresAtMs };
    });
    if (actor === null) throw appError('invalid_token', { detail: 'The session of this token is over.' });
    return actor;
  }

  return async (authorization) => {
    const token = /^Bearer +([\w.~+/-]+=*)$/i.exec(authorization ?? '')?.[1];
    if (token === undefined) {
      throw appError('invalid_token', { detail: 'Send an access token as "Authorization: Bearer <token>".' });
    }
    const caller = verifyToken(token);
    const actorNow = () => findActor(caller);
    return { actor: await actorNow(), sessionId: caller.sessionId, actorNow };
  };
}
