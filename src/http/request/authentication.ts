import type { Request } from 'express';
import { LRUCache } from 'lru-cache';
import passport from 'passport';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type { Caller, IdentityProvider, SignInAttempt, SignInRequest, VerifiedIdentity } from '#src/ports/identity.ts';

const actorMaxAgeMs = 2_000;
const maxCachedActors = 10_000;

/** User of an access token. `actorNow` reads current rights; throws `invalid_token` after the session's end. */
type AuthenticatedUser = { actor: Actor; sessionId: string; actorNow: () => Promise<Actor> };

export type BearerAuthenticator = (authorization: string | undefined) => Promise<AuthenticatedUser>;

/** Reads the rights of a session that another credential than an access token has named. Throws `invalid_token`. */
export type SessionAuthenticator = (caller: Caller) => Promise<AuthenticatedUser>;

type SessionCheckDeps = {
  /** Returns null if the session has ended or the user is disabled, deleted or in no organization. */
  findCaller: (caller: Caller) => Promise<Actor | null>;
  onAccessChange: (listener: (orgId: string) => void) => void;
};

/** Rights come from Postgres, cached for `actorMaxAgeMs`, so a logout takes effect within seconds. */
function createSessionCheck({ findCaller, onAccessChange }: SessionCheckDeps): SessionAuthenticator {
  /** Cached rights of a session. Concurrent requests share the query `lookUp`; `actor` is its result. */
  type Session = { lookUp: Promise<Actor | null>; actor?: Actor | null };
  const sessions = new LRUCache<string, Session>({
    max: maxCachedActors,
    perf: Date,
    // Makes lru-cache read the clock at each access, so that entries expire on time. By default it reads the clock by a
    // timer.
    ttlResolution: 0,
  });
  onAccessChange((orgId) => {
    for (const [key, { actor }] of sessions.entries()) {
      // A session whose query is still running may have read the old rights, so its cache entry is dropped too.
      if (actor === undefined || actor?.orgId === orgId) sessions.delete(key);
    }
  });

  function lookUp(caller: Caller): Promise<Actor | null> {
    const key = `${caller.sessionId} ${caller.userId}`;
    const cached = sessions.get(key);
    if (cached !== undefined) return cached.lookUp;
    const session: Session = { lookUp: findCaller(caller) };
    const start = Date.now();
    // The cache entry does not expire while its database query runs, so that a slow database does not get the query
    // twice.
    sessions.set(key, session, { ttl: 0 });
    session.lookUp.then(
      (actor) => {
        session.actor = actor;
        if (sessions.peek(key) === session) sessions.set(key, session, { ttl: actorMaxAgeMs, start });
      },
      () => {
        if (sessions.peek(key) === session) sessions.delete(key);
      },
    );
    return session.lookUp;
  }

  async function findActor(caller: Caller): Promise<Actor> {
    const actor = await lookUp(caller);
    if (actor === null) throw appError('invalid_token', { detail: 'The session of this token has ended.' });
    return actor;
  }

  return async (caller) => {
    const actorNow = () => findActor(caller);
    return { actor: await actorNow(), sessionId: caller.sessionId, actorNow };
  };
}

export type PassportDeps = SessionCheckDeps & {
  verifyToken: (token: string) => Caller;
  /**
   * Returns the Passport strategy for sign-in with OpenID Connect. Its callers pass the sign-in as the strategy's
   * option `request`, a {@link SignInRequest}.
   */
  findSignInStrategy: (() => Promise<passport.Strategy>) | null;
};

/** Passport gets neither request nor response, so it cannot redirect, answer or add `req.login`. */
export function createPassport({ findSignInStrategy, verifyToken, ...deps }: PassportDeps) {
  const authenticator = new passport.Passport();
  const authenticateSession = createSessionCheck(deps);
  authenticator.use('bearer', new BearerStrategy(async (token) => authenticateSession(verifyToken(token))));

  function run<User>(strategy: string, request: object, options: object = {}): Promise<User> {
    return new Promise((resolve, reject) => {
      const done = (error: unknown, user: User | false, refusal: unknown) =>
        user ? resolve(user) : reject(error ?? refusal);
      authenticator.authenticate(strategy, { ...options, session: false }, done)(request, {}, reject);
    });
  }

  async function signIn<User>(strategyOf: () => Promise<passport.Strategy>, request: SignInRequest): Promise<User> {
    authenticator.use('sign-in', await strategyOf());
    return run('sign-in', {}, { request });
  }

  const authenticate: BearerAuthenticator = (authorization) =>
    run<AuthenticatedUser>('bearer', { headers: { authorization } });
  const identityProvider: IdentityProvider | null = findSignInStrategy && {
    begin: (request) => signIn<SignInAttempt & { url: string }>(findSignInStrategy, request),
    identify: (attempt, answer) => signIn<VerifiedIdentity>(findSignInStrategy, { ...attempt, answer }),
  };
  return { authenticate, authenticateSession, identityProvider };
}

/** Accepts an access token only in the `Authorization` header, not in a body or query string (RFC 6750 §2). */
class BearerStrategy extends passport.Strategy {
  readonly check: (token: string) => Promise<AuthenticatedUser>;

  constructor(check: (token: string) => Promise<AuthenticatedUser>) {
    super();
    this.check = check;
  }

  override authenticate({ headers }: Request): void {
    const token = /^Bearer +([\w.~+/-]+=*)$/i.exec(headers.authorization ?? '')?.[1];
    if (token === undefined) {
      this.fail(appError('invalid_token', { detail: 'Send an access token as "Authorization: Bearer <token>".' }));
      return;
    }
    this.check(token).then(
      (user) => this.success(user),
      (error: unknown) => this.error(error),
    );
  }
}
