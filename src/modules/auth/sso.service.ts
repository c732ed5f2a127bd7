import type { Knex } from 'knex';
import { validateReturnUrl } from '#src/domain/access/return-address.ts';
import { AppError, appError, type ErrorCode } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { OAuthStateStore } from '#src/modules/consents/consents.service.ts';
import type { IdentityProvider, SignInAttempt, VerifiedIdentity } from '#src/ports/identity.ts';
import { createAccountsRepository, createIdentitiesRepository } from './accounts.repository.ts';
import type { AccountsService } from './accounts.service.ts';
import type { Account, SignInRequestOrigin, SignInResult } from './auth.model.ts';
import { type IdentityClaims, identityClaims, type SsoAuthorizeBody, type SsoCallbackQuery } from './auth.schema.ts';
import type { AuthService } from './auth.service.ts';
import type { SessionsService } from './sessions.service.ts';

export type SsoSignInStateFields = Pick<SignInAttempt, 'nonce' | 'redirectUri'>;

type SsoServiceDeps = {
  db: Knex;
  sso: { provider: IdentityProvider; redirectUri: string; redirectOrigins: readonly string[] } | null;
  states: OAuthStateStore<SsoSignInStateFields>;
  accounts: Pick<AccountsService, 'prepare'>;
  sessions: Pick<SessionsService, 'endAll'>;
  auth: Pick<AuthService, 'openSession' | 'registerFounder' | 'recordRefusal'>;
  audit: AuditService;
};

type Authenticated = { identity: VerifiedIdentity; claims: IdentityClaims; origin: SignInRequestOrigin };

/**
 * Accepted values of the request field `provider`; a deployment has one identity provider, and both values select it.
 */
const providerNames = ['acme', 'acmeoauth'];
/** Error codes of refused sign-ins that are recorded in the audit log although no account is known. */
const recordedRefusals: readonly ErrorCode[] = ['identity_not_verified', 'email_not_verified'];
/** Maximum attempts of a sign-in, which is repeated if another request has created, linked or deleted the account. */
const maxAttempts = 3;

export function createSsoService(deps: SsoServiceDeps) {
  const { db, sso, states, accounts, sessions, auth, audit } = deps;

  function configured() {
    if (sso !== null) return sso;
    throw appError('provider_not_configured', { detail: 'This deployment has no identity provider.' });
  }

  /**
   * Keeps the redirect URI exactly as it was sent, because the provider requires the same text in the authorization
   * request and the token request.
   */
  function allowedRedirect(address: string | undefined): string {
    const { redirectUri, redirectOrigins } = configured();
    if (address === undefined || address === redirectUri) return redirectUri;
    const allowed = validateReturnUrl(address, { home: redirectUri, origins: redirectOrigins });
    if (allowed === null || /[?#]/.test(allowed)) {
      const detail = 'It must be at an origin of SSO_REDIRECT_ORIGINS, without a query or a fragment.';
      throw appError('redirect_not_allowed', { detail });
    }
    return allowed;
  }

  async function refuseDisabled(account: Account, requestId: string): Promise<void> {
    if (!account.isDisabled) return;
    await auth.recordRefusal(account, 'account_disabled', requestId);
    throw appError('account_disabled', { detail: 'Ask an admin of your organization to enable the account.' });
  }

  async function refuseOtherIdentity(account: Account, { identity, origin }: Authenticated): Promise<void> {
    if (!(await createIdentitiesRepository(db).isLinkedToAnother(identity, account.userId))) return;
    await auth.recordRefusal(account, 'email_taken', origin.requestId);
    throw appError('email_taken', { detail: ownedByAnother });
  }

  /** Signs in a user whose identity is linked. Returns undefined if the account was deleted meanwhile. */
  async function signIn(account: Account, { claims, origin }: Authenticated): Promise<SignInResult | undefined> {
    await refuseDisabled(account, origin.requestId);
    return db.transaction(async (trx) => {
      const users = createAccountsRepository(trx);
      if (!(await users.lock({ id: account.userId }))) return undefined;
      await users.setAvatarUrl(account.userId, claims.pictureUrl);
      return auth.openSession(trx, account, origin);
    });
  }

  /**
   * Links an account to the user whom the provider has verified as the owner of its email. An attacker may have
   * registered the account with a password in advance, because that verifies no email: the password is removed and all
   * sessions end. Throws `email_taken` if the account is linked to another user of the provider. Returns undefined if
   * another request has changed the account meanwhile.
   */
  async function link(account: Account, user: Authenticated): Promise<SignInResult | undefined> {
    const { identity, claims, origin } = user;
    const { requestId } = origin;
    await refuseDisabled(account, requestId);
    await refuseOtherIdentity(account, user);
    const { userId, orgId, email, passwordHash } = account;
    return db.transaction(async (trx) => {
      const users = createAccountsRepository(trx);
      if (!(await users.lock({ id: userId, email }))) return undefined;
      if (!(await createIdentitiesRepository(trx).insert(identity, userId))) return undefined;
      await users.removePassword(userId);
      await sessions.endAll(trx, [userId]);
      await users.setAvatarUrl(userId, claims.pictureUrl);
      const detail = { had_password: passwordHash !== null };
      await audit.record(trx, { orgId, actorId: userId, action: 'identity.linked', target: userId, detail, requestId });
      return auth.openSession(trx, account, origin);
    });
  }

  /** Creates an account with an organization. Returns undefined if another request has just taken the email. */
  async function register(
    email: string,
    { identity, claims, origin }: Authenticated,
  ): Promise<SignInResult | undefined> {
    try {
      const founder = await accounts.prepare({ ...claims, email, password: null }, origin.client.network);
      return await db.transaction(async (trx) => {
        const signedIn = await auth.registerFounder(trx, founder, undefined, origin);
        // If another request has just linked the identity to an account with another email, the error rolls the new
        // account back.
        if (!(await createIdentitiesRepository(trx).insert(identity, founder.userId))) throw appError('email_taken');
        await createAccountsRepository(trx).setAvatarUrl(founder.userId, claims.pictureUrl);
        return signedIn;
      });
    } catch (error) {
      if (error instanceof AppError && error.code === 'email_taken') return undefined;
      throw error;
    }
  }

  async function attempt(user: Authenticated): Promise<SignInResult | undefined> {
    const { identity, claims } = user;
    const users = createAccountsRepository(db);
    const userId = await createIdentitiesRepository(db).findUserId(identity);
    if (userId !== undefined) {
      const known = await users.findById(userId);
      return known && signIn(known, user);
    }
    const email = verifiedEmail(claims);
    const account = await users.findByEmail(email);
    return account === undefined ? register(email, user) : link(account, user);
  }

  async function admit(identity: VerifiedIdentity, origin: SignInRequestOrigin): Promise<SignInResult> {
    const user = { identity, claims: identityClaims.parse(identity.claims), origin };
    for (let count = 0; count < maxAttempts; count += 1) {
      const signedIn = await attempt(user);
      if (signedIn !== undefined) return signedIn;
    }
    throw appError('service_unavailable', { detail: 'The account is being changed by other requests. Sign in again.' });
  }

  return {
    /**
     * Returns the URL of the provider's sign-in page for the browser. Throws `unsupported_provider`,
     * `redirect_not_allowed`, `provider_not_configured`, `provider_rejected`, `provider_response_invalid`,
     * `provider_unavailable`.
     */
    async begin(request: SsoAuthorizeBody): Promise<string> {
      if (!providerNames.includes(request.provider.toLowerCase())) {
        throw appError('unsupported_provider', { detail: `provider must be ${providerNames.join(' or ')}.` });
      }
      const { provider } = configured();
      const redirectUri = allowedRedirect(request.redirectUri);
      const state = states.newState();
      const { url, ...attempt } = await provider.begin({ redirectUri, state });
      await states.keep(state, attempt);
      return url;
    },

    /**
     * Finishes a sign-in with the parameters of the provider's redirect; their `state` works once. Throws
     * `sign_in_invalid`, `sign_in_denied`, `identity_not_verified`, `email_not_verified`, `email_taken`,
     * `account_disabled`, and the errors of `IdentityProvider.identify`.
     */
    async finish({ code, state, error, issuer }: SsoCallbackQuery, origin: SignInRequestOrigin): Promise<SignInResult> {
      const { provider } = configured();
      const begun = await states.take(state);
      if (begun === undefined || !begun.isFresh) throw appError('sign_in_invalid', { detail: beginAgain });
      if (error !== undefined || code === undefined) throw appError('sign_in_denied', { detail: beginAgain });
      try {
        return await admit(await provider.identify(begun, { code, issuer }), origin);
      } catch (thrown) {
        if (thrown instanceof AppError && recordedRefusals.includes(thrown.code)) {
          await auth.recordRefusal(undefined, thrown.code, origin.requestId);
        }
        throw thrown;
      }
    },

    deleteExpired: () => states.deleteExpired(),
  };
}

export type SsoService = ReturnType<typeof createSsoService>;

const beginAgain = 'Begin the sign-in again.';
const ownedByAnother =
  'The account with this email belongs to another user of the provider. Ask an admin of its organization.';

function verifiedEmail({ email, isEmailVerified }: IdentityClaims): string {
  if (email === undefined) throw appError('email_not_verified', { detail: 'The identity provider sent no email.' });
  if (!isEmailVerified)
    throw appError('email_not_verified', { detail: 'Verify your email at the identity provider, and sign in again.' });
  return email;
}
