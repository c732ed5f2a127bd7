import type { Knex } from 'knex';
import { returnAddress } from '#src/domain/access/return-address.ts';
import { AppError, appError, type ErrorCode } from '#src/errors.ts';
import type { AuditService } from '#src/modules/audit/audit.service.ts';
import type { OneTimeStates } from '#src/modules/consents/one-time-states.service.ts';
import type { Identity, IdentityProvider, SignInAttempt } from '#src/ports/identity.ts';
import { createAccountsRepository } from './accounts.repository.ts';
import type { AccountsService } from './accounts.service.ts';
import type { Account, SignIn, SignInOrigin } from './auth.model.ts';
import { createIdentitiesRepository } from './identities.repository.ts';
import type { SessionsService } from './sessions.service.ts';
import type { SignIns } from './sign-ins.ts';
import { type Person, personClaims, type SsoCallback, type SsoWish } from './sso.schema.ts';

export type SignInFacts = Pick<SignInAttempt, 'nonce' | 'redirectUri'>;

export type SsoServiceDeps = {
  db: Knex;
  /** Null where the deployment has none. */
  sso: { provider: IdentityProvider; redirectUri: string; redirectOrigins: readonly string[] } | null;
  states: OneTimeStates<SignInFacts>;
  accounts: Pick<AccountsService, 'prepare'>;
  sessions: Pick<SessionsService, 'endAll'>;
  signIns: SignIns;
  audit: AuditService;
};

/** Whom the provider vouches for, and what it says of him. */
type Arrival = { identity: Identity; person: Person; origin: SignInOrigin };

/** As clients call the one provider of the deployment. */
const providerNames = ['acme', 'acmeoauth'];
/** What the audit log tells of whom no account is known. */
const recordedRefusals: readonly ErrorCode[] = ['identity_not_verified', 'email_not_verified'];
/** Each gives way to what somebody else has done since: he has made the account, linked it, or ended it. */
const maxAttempts = 3;

/** Sign-in with the identity provider of the deployment (OpenID Connect). */
export function createSsoService(deps: SsoServiceDeps) {
  const { db, sso, states, accounts, sessions, signIns, audit } = deps;

  function configured() {
    if (sso !== null) return sso;
    throw appError('provider_not_configured', { detail: 'Nobody signs in here by an identity provider.' });
  }

  /** In the spelling in which the provider gets it both times. */
  function allowedRedirect(address: string | undefined): string {
    const { redirectUri, redirectOrigins } = configured();
    if (address === undefined || address === redirectUri) return redirectUri;
    const allowed = returnAddress(address, { home: redirectUri, origins: redirectOrigins });
    if (allowed === null || /[?#]/.test(allowed)) {
      const detail = 'It has to be below an origin of SSO_REDIRECT_ORIGINS, without a query or a fragment.';
      throw appError('redirect_not_allowed', { detail });
    }
    return allowed;
  }

  async function refuseDisabled(account: Account, requestId: string): Promise<void> {
    if (!account.isDisabled) return;
    await signIns.recordRefusal(account, 'account_disabled', requestId);
    throw appError('account_disabled', { detail: 'Ask an admin of your organization.' });
  }

  async function refuseSuccessor(account: Account, { identity, origin }: Arrival): Promise<void> {
    if (!(await createIdentitiesRepository(db).isAnother(identity, account.userId))) return;
    await signIns.recordRefusal(account, 'email_taken', origin.requestId);
    throw appError('email_taken', { detail: ownedByAnother });
  }

  /** Of a user who is known by his identity. Undefined when he is gone by now. */
  async function enter(account: Account, { person, origin }: Arrival): Promise<SignIn | undefined> {
    await refuseDisabled(account, origin.requestId);
    return db.transaction(async (trx) => {
      const users = createAccountsRepository(trx);
      if (!(await users.hold({ id: account.userId }))) return undefined;
      await users.setAvatarUrl(account.userId, person.pictureUrl);
      return signIns.open(trx, account, origin);
    });
  }

  /**
   * Gives an account to whom the provider knows as the owner of its email. Whoever registered it had proved nothing, and
   * might have waited for him: password and sessions of before are worth nothing any more. Throws `email_taken` where
   * the provider has given the email of one to another.
   */
  async function link(account: Account, arrival: Arrival): Promise<SignIn | undefined> {
    const { identity, person, origin } = arrival;
    const { requestId } = origin;
    await refuseDisabled(account, requestId);
    await refuseSuccessor(account, arrival);
    const { userId, orgId, email, passwordHash } = account;
    return db.transaction(async (trx) => {
      const users = createAccountsRepository(trx);
      if (!(await users.hold({ id: userId, email }))) return undefined;
      if (!(await createIdentitiesRepository(trx).insert(identity, userId))) return undefined;
      await users.removePassword(userId);
      await sessions.endAll(trx, [userId]);
      await users.setAvatarUrl(userId, person.pictureUrl);
      const detail = { had_password: passwordHash !== null };
      await audit.record(trx, { orgId, actorId: userId, action: 'identity.linked', target: userId, detail, requestId });
      return signIns.open(trx, account, origin);
    });
  }

  /** With an organization, as by registering. Undefined when the email has an account by now. */
  async function register(email: string, { identity, person, origin }: Arrival): Promise<SignIn | undefined> {
    try {
      const founder = await accounts.prepare({ ...person, email, password: null }, origin.client.network);
      return await db.transaction(async (trx) => {
        const signedIn = await signIns.register(trx, founder, undefined, origin);
        // Known by now under another email: then nothing of this stays.
        if (!(await createIdentitiesRepository(trx).insert(identity, founder.userId))) throw appError('email_taken');
        await createAccountsRepository(trx).setAvatarUrl(founder.userId, person.pictureUrl);
        return signedIn;
      });
    } catch (error) {
      if (error instanceof AppError && error.code === 'email_taken') return undefined;
      throw error;
    }
  }

  async function attempt(arrival: Arrival): Promise<SignIn | undefined> {
    const { identity, person } = arrival;
    const users = createAccountsRepository(db);
    const userId = await createIdentitiesRepository(db).findUserId(identity);
    if (userId !== undefined) {
      const known = await users.findById(userId);
      return known && enter(known, arrival);
    }
    const email = verifiedEmail(person);
    const account = await users.findByEmail(email);
    return account === undefined ? register(email, arrival) : link(account, arrival);
  }

  async function admit(identity: Identity, origin: SignInOrigin): Promise<SignIn> {
    const arrival = { identity, person: personClaims.parse(identity.claims), origin };
    for (let count = 0; count < maxAttempts; count += 1) {
      const signedIn = await attempt(arrival);
      if (signedIn !== undefined) return signedIn;
    }
    throw appError('service_unavailable', { detail: 'The account is being changed. Sign in once more.' });
  }

  return {
    /**
     * Where the browser of whoever signs in has to go. Throws `unsupported_provider`, `redirect_not_allowed`,
     * `provider_not_configured`, `provider_rejected`, `provider_response_invalid`, `provider_unavailable`.
     */
    async begin(wish: SsoWish): Promise<string> {
      if (!providerNames.includes(wish.provider.toLowerCase())) {
        throw appError('unsupported_provider', { detail: `It is called ${providerNames.join(' or ')} here.` });
      }
      const { provider } = configured();
      const redirectUri = allowedRedirect(wish.redirectUri);
      const state = states.newState();
      const { url, ...attempt } = await provider.begin({ redirectUri, state });
      await states.keep(state, attempt);
      return url;
    },

    /**
     * Takes what the provider has sent the browser back with, and uses its state up. Throws `sign_in_invalid`,
     * `sign_in_denied`, `identity_not_verified`, `email_not_verified`, `email_taken`, `account_disabled`, and what asking
     * the provider throws.
     */
    async finish({ code, state, error, issuer }: SsoCallback, origin: SignInOrigin): Promise<SignIn> {
      const { provider } = configured();
      const begun = await states.take(state);
      if (begun === undefined || !begun.isFresh) throw appError('sign_in_invalid', { detail: beginAgain });
      if (error !== undefined || code === undefined) throw appError('sign_in_denied', { detail: beginAgain });
      try {
        return await admit(await provider.identify(begun, { code, issuer }), origin);
      } catch (thrown) {
        if (thrown instanceof AppError && recordedRefusals.includes(thrown.code)) {
          await signIns.recordRefusal(undefined, thrown.code, origin.requestId);
        }
        throw thrown;
      }
    },

    /** A step of the sweeper. */
    deleteExpired: () => states.deleteExpired(),
  };
}

export type SsoService = ReturnType<typeof createSsoService>;

const beginAgain = 'Begin the sign-in once more.';
const ownedByAnother = 'Its account is that of another person at the provider. Ask an admin of its organization.';

/** Throws `email_not_verified`. */
function verifiedEmail({ email, isEmailVerified }: Person): string {
  if (email === undefined) throw appError('email_not_verified', { detail: 'The provider tells no email.' });
  if (!isEmailVerified) throw appError('email_not_verified', { detail: 'Have it verified there, and sign in again.' });
  return email;
}
