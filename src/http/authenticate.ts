import type { Actor } from '#src/domain/visibility.ts';
import { appError } from '#src/errors.ts';
import type { Caller } from '#src/ports/identity.ts';
import { createExpiringCache } from './expiring-cache.ts';

/** Maximum age of cached sessions, roles and teams. */
const actorMaxAgeMs = 2_000;
const maxCachedActors = 10_000;

/**
 * The user who sends a request, and the session of their token. `actorNow` reads the user's current rights, even after
 * the token has expired; it throws `invalid_token` once the session is over.
 */
export type Authenticated = { actor: Actor; sessionId: string; actorNow: () => Promise<Actor> };

/** Authenticates a request by its `Authorization` header; throws `invalid_token`. */
export type Authenticate = (authorization: string | undefined) => Promise<Authenticated>;

export type TokenCheckDeps = {
  /** Checks signature, type, issuer, audience and expiry; throws `invalid_token`. */
  verifyToken: (token: string) => Caller;
  /** Returns null if the user is disabled, deleted or in no organization, or if the session was cut off. */
  findCaller: (caller: Caller) => Promise<Actor | null>;
  /** Registers a listener for changes to an organization's roles and members by this process. */
  onAccessChange: (listener: (orgId: string) => void) => void;
};

/**
 * Resolves an access token to its user and session. The token only identifies them: rights are read from Postgres, so
 * that a logout, a disabled user or a revoked role takes effect within seconds, whatever the token still claims.
 */
export function createTokenCheck({ verifyToken, findCaller, onAccessChange }: TokenCheckDeps) {
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

  return async (token: string): Promise<Authenticated> => {
    const caller = verifyToken(token);
    const actorNow = () => findActor(caller);
    return { actor: await actorNow(), sessionId: caller.sessionId, actorNow };
  };
}
