import type { Request } from 'express';
import passport from 'passport';
import { appError } from '#src/errors.ts';
import type { Identity, IdentityProvider, SignInAttempt, SignInRequest } from '#src/ports/identity.ts';
import { type Authenticate, type Authenticated, createTokenCheck, type TokenCheckDeps } from './authenticate.ts';

export type PassportDeps = TokenCheckDeps & {
  /** Strategy for sign-ins with OpenID Connect, with the option `request`, a {@link SignInRequest}; null if none is configured. */
  findSignInStrategy: (() => Promise<passport.Strategy>) | null;
};

/**
 * Authenticates with passport: requests by bearer token, sign-ins at the identity provider. Outcomes are values and
 * errors: passport sees neither the request nor the response, so it cannot redirect, answer or add `req.login` to them.
 */
export function createPassport({ findSignInStrategy, ...deps }: PassportDeps) {
  const authenticator = new passport.Passport();
  authenticator.use('bearer', new BearerStrategy(createTokenCheck(deps)));

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

  const authenticate: Authenticate = (authorization) => run<Authenticated>('bearer', { headers: { authorization } });
  const identityProvider: IdentityProvider | null = findSignInStrategy && {
    begin: (request) => signIn<SignInAttempt & { url: string }>(findSignInStrategy, request),
    identify: (attempt, answer) => signIn<Identity>(findSignInStrategy, { ...attempt, answer }),
  };
  return { authenticate, identityProvider };
}

/** Accepts an access token in the `Authorization` header alone, not in a body or a query string (RFC 6750 §2). */
class BearerStrategy extends passport.Strategy {
  readonly check: (token: string) => Promise<Authenticated>;

  constructor(check: (token: string) => Promise<Authenticated>) {
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
