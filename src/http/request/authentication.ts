import { createHash } from 'node:crypto';
import type { Request } from 'express';
import { LRUCache } from 'lru-cache';
import passport from 'passport';
import { type ApiKeyScope, isApiKeySecret } from '#src/domain/access/api-keys.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError } from '#src/errors.ts';
import type {
  ApiKeyUser,
  Caller,
  IdentityProvider,
  SignInAttempt,
  SignInRequest,
  VerifiedIdentity,
} from '#src/ports/identity.ts';

const actorMaxAgeMs = 2_000;
const maxCachedActors = 10_000;
/** Unknown keys are cached too, in a cache of their own, so that guesses do not evict sessions. */
const maxCachedKeys = 1_000;

/**
 * User of an access token or of an API key. `scopes` are those of the key, null for a session. `actorNow` reads current
 * rights; throws `invalid_token` after the end of the session or key.
 */
type AuthenticatedUser = {
  actor: Actor;
  sessionId: string;
  scopes: readonly ApiKeyScope[] | null;
  actorNow: () => Promise<Actor>;
};

export type BearerAuthenticator = (authorization: string | undefined) => Promise<AuthenticatedUser>;

/** Reads the rights of a session that another credential than an access token has named. Throws `invalid_token`. */
export type SessionAuthenticator = (caller: Caller) => Promise<AuthenticatedUser>;

type TokenCheckDeps = {
  verifyToken: (token: string) => Caller;
  /** Returns null if the session has ended or the user is disabled, deleted or in no organization. */
  findCaller: (caller: Caller) => Promise<Actor | null>;
  /** Returns null if the key is unknown, expired or revoked. */
  findKeyCaller: (secretHash: Buffer) => Promise<ApiKeyUser | null>;
  onAccessChange: (listener: (orgId: string) => void) => void;
};

type FoundUser = Omit<AuthenticatedUser, 'actorNow'>;

/** Caches users and their rights for `actorMaxAgeMs`. Concurrent look-ups of the same key share one query. */
function createUserCache(max: number) {
  /** `user` is the result of `lookUp`. */
  type Entry = { lookUp: Promise<FoundUser | null>; user?: FoundUser | null };
  const entries = new LRUCache<string, Entry>({
    max,
    perf: Date,
    // Makes lru-cache read the clock at each access, so that entries expire on time. By default it reads the clock by a
    // timer.
    ttlResolution: 0,
  });
  function forget(orgId: string): void {
    for (const [key, { user }] of entries.entries()) {
      // A look-up whose query is still running may have read the old rights, so its cache entry is dropped too.
      if (user === undefined || user?.actor.orgId === orgId) entries.delete(key);
    }
  }

  function lookUp(key: string, find: () => Promise<FoundUser | null>): Promise<FoundUser | null> {
    const cached = entries.get(key);
    if (cached !== undefined) return cached.lookUp;
    const entry: Entry = { lookUp: find() };
    const start = Date.now();
    // The cache entry does not expire while its database query runs, so that a slow database does not get the query
    // twice.
    entries.set(key, entry, { ttl: 0 });
    entry.lookUp.then(
      (user) => {
        entry.user = user;
        if (entries.peek(key) === entry) entries.set(key, entry, { ttl: actorMaxAgeMs, start });
      },
      () => {
        if (entries.peek(key) === entry) entries.delete(key);
      },
    );
    return entry.lookUp;
  }

  return { lookUp, forget };
}

/** Rights come from Postgres, cached for `actorMaxAgeMs`, so a logout or a revoked key takes effect within seconds. */
function createTokenCheck({ verifyToken, findCaller, findKeyCaller, onAccessChange }: TokenCheckDeps) {
  const sessions = createUserCache(maxCachedActors);
  const keys = createUserCache(maxCachedKeys);
  onAccessChange((orgId) => {
    for (const cache of [sessions, keys]) cache.forget(orgId);
  });

  async function userOfSession(caller: Caller): Promise<FoundUser> {
    const { sessionId, userId } = caller;
    const user = await sessions.lookUp(`${sessionId} ${userId}`, async () => {
      const actor = await findCaller(caller);
      return actor && { actor, sessionId, scopes: null };
    });
    if (user === null) throw appError('invalid_token', { detail: 'The session of this token has ended.' });
    return user;
  }

  async function userOfKey(secretHash: Buffer): Promise<FoundUser> {
    const user = await keys.lookUp(secretHash.toString('base64'), () => findKeyCaller(secretHash));
    if (user === null) throw appError('invalid_token', { detail: 'The API key is unknown, expired or revoked.' });
    return user;
  }

  function finderOf(token: string): () => Promise<FoundUser> {
    if (isApiKeySecret(token)) {
      const secretHash = createHash('sha256').update(token).digest();
      return () => userOfKey(secretHash);
    }
    const caller = verifyToken(token);
    return () => userOfSession(caller);
  }

  async function authenticated(find: () => Promise<FoundUser>): Promise<AuthenticatedUser> {
    return { ...(await find()), actorNow: async () => (await find()).actor };
  }

  return {
    checkToken: async (token: string) => authenticated(finderOf(token)),
    authenticateSession: (caller: Caller) => authenticated(() => userOfSession(caller)),
  };
}

export type PassportDeps = TokenCheckDeps & {
  /**
   * Returns the Passport strategy for sign-in with OpenID Connect. Its callers pass the sign-in as the strategy's
   * option `request`, a {@link SignInRequest}.
   */
  findSignInStrategy: (() => Promise<passport.Strategy>) | null;
};

/** Passport gets neither request nor response, so it cannot redirect, answer or add `req.login`. */
export function createPassport({ findSignInStrategy, ...deps }: PassportDeps) {
  const authenticator = new passport.Passport();
  const { checkToken, authenticateSession } = createTokenCheck(deps);
  authenticator.use('bearer', new BearerStrategy(checkToken));

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
