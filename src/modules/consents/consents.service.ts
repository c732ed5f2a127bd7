import { z } from 'zod';
import { validateReturnUrl } from '#src/domain/access/return-address.ts';
import type { RequestActor } from '#src/domain/access/visibility.ts';
import { AppError, appError, fieldError } from '#src/errors.ts';
import type { SecretCipher } from '#src/ports/encryption.ts';
import type { OAuthClient, OAuthProvider, OAuthTokens } from '#src/ports/identity.ts';
import type { FinishedOAuthConsent, OAuthConsentPurpose, PendingOAuthConsent } from './consents.model.ts';
import type { OAuthStateStore } from './one-time-states.repository.ts';

export type { FinishedOAuthConsent, PendingOAuthConsent } from './consents.model.ts';
export type { OAuthStateStore } from './one-time-states.repository.ts';

export type OAuthConsentCallback = {
  provider: string;
  state: string;
  code: string | undefined;
  error: string | undefined;
  issuer: string | undefined;
};

/** Result of the OAuth callback: a redirect, or the consent code if the consent was begun without `return_to`. */
export type OAuthConsentCallbackResult = { location: string } | { location: null; consentCode: string };

export type OAuthConsentRequest = {
  purpose: OAuthConsentPurpose;
  provider: string;
  settings: OAuthProvider;
  redirectUri: string;
  scopes: readonly string[];
  siteId?: string;
  /**
   * Value of `return_to` in the request, not yet validated. If undefined, the callback responds with the consent code.
   */
  returnTo: string | undefined;
};

/** Content of a consent code. The code is encrypted, so the frontend that passes it on cannot read it. */
const codeContent = z.tuple([z.string(), z.string(), z.string().nullable()]);

/**
 * Consents (OAuth 2.0 authorization code grant with PKCE) in three steps: an authenticated request begins one, the
 * provider redirects the browser to the callback, and an authenticated request of the same user finishes it with the
 * consent code from the callback. Only the last step gets tokens, because the callback cannot know whose browser it
 * serves: an attacker could send their authorization URL to another user and get access to that user's account at the
 * provider (RFC 9700 §4.7). A `state` works once, for ten minutes, for its user, purpose and provider.
 */
export function createOAuthConsentsService(deps: {
  states: OAuthStateStore<PendingOAuthConsent>;
  oauth: OAuthClient;
  secrets: Pick<SecretCipher, 'encrypt' | 'decrypt'>;
  /**
   * Allowed redirect targets after a consent. `home` is the base URL for relative paths; null if no setting defines it.
   */
  frontend: { home: string | null; origins: readonly string[] };
}) {
  const { states, oauth, secrets, frontend } = deps;

  function checkedReturn({ returnTo }: OAuthConsentRequest): string | null {
    if (returnTo === undefined) return null;
    const address = validateReturnUrl(returnTo, frontend);
    if (address === null) throw fieldError('return_to', 'must be a path, or an address of an allowed origin', 'origin');
    return address;
  }

  function decryptCode(encrypted: string, place: string): z.infer<typeof codeContent> {
    try {
      return codeContent.parse(JSON.parse(secrets.decrypt(encrypted, place).secret));
    } catch {
      throw consentInvalid();
    }
  }

  return {
    /** Returns the provider's consent page for the caller. Throws `validation_failed` if `return_to` is not allowed. */
    async begin({ orgId, userId }: RequestActor, request: OAuthConsentRequest): Promise<string> {
      const { purpose, provider, settings, redirectUri, scopes } = request;
      const returnTo = checkedReturn(request);
      const state = states.newState();
      const codeVerifier = oauth.newCodeVerifier();
      await states.keep(state, {
        orgId,
        userId,
        purpose,
        provider,
        codeVerifier,
        redirectUri,
        scopes: [...scopes],
        siteId: request.siteId ?? null,
        returnTo,
      });
      return oauth.authorizeUrl(settings, { state, codeVerifier, redirectUri, scopes });
    },

    /**
     * Handles the OAuth callback: turns its parameters into a consent code without changing the stored `state`.
     * Redirects errors to `return_to` if the state is known and has one; otherwise throws `consent_invalid` or
     * `consent_denied`.
     */
    async comeBack(callback: OAuthConsentCallback, purpose: OAuthConsentPurpose): Promise<OAuthConsentCallbackResult> {
      const { provider, state, code, error, issuer = null } = callback;
      const consent = await states.find(state);
      if (!matches(consent, { purpose, provider })) throw consentInvalid();
      const { returnTo, isFresh } = consent;
      try {
        if (!isFresh) throw consentInvalid();
        if (error !== undefined) throw appError('consent_denied');
        if (code === undefined) throw consentInvalid();
        const consentCode = secrets.encrypt(JSON.stringify([state, code, issuer]), placeOf(purpose, provider));
        if (returnTo === null) return { location: null, consentCode };
        return { location: withOutcome(returnTo, 'consent_code', consentCode) };
      } catch (thrown) {
        if (returnTo === null || !(thrown instanceof AppError)) throw thrown;
        return { location: withOutcome(returnTo, 'error', thrown.code) };
      }
    },

    /**
     * Exchanges a consent code for tokens of the provider. Deletes the stored `state` even if another user began the
     * consent. Throws `consent_invalid`.
     */
    async finish(
      actor: RequestActor,
      { provider, consentCode }: { provider: string; consentCode: string },
      begun: { purpose: OAuthConsentPurpose; settings: OAuthProvider },
    ): Promise<{ consent: FinishedOAuthConsent; tokens: OAuthTokens }> {
      const { purpose, settings } = begun;
      const [state, code, issuer] = decryptCode(consentCode, placeOf(purpose, provider));
      const consent = await states.take(state);
      if (!matches(consent, { purpose, provider }) || !consent.isFresh) throw consentInvalid();
      if (consent.userId !== actor.userId) {
        throw appError('consent_invalid', { detail: 'Another user began this consent. Begin one yourself.' });
      }
      const { codeVerifier, redirectUri } = consent;
      const grant = { code, issuer: issuer ?? undefined, codeVerifier, redirectUri };
      return { consent, tokens: await oauth.exchange(settings, grant) };
    },

    deleteExpired: () => states.deleteExpired(),
  };
}

export type OAuthConsentsService = ReturnType<typeof createOAuthConsentsService>;

const placeOf = (purpose: OAuthConsentPurpose, provider: string) => `consent_code/${purpose}/${provider}`;

type Begun = Pick<PendingOAuthConsent, 'purpose' | 'provider'>;

function matches<Facts extends Begun>(consent: Facts | undefined, begun: Begun): consent is Facts {
  return consent !== undefined && consent.purpose === begun.purpose && consent.provider === begun.provider;
}

function consentInvalid(): AppError {
  return appError('consent_invalid', { detail: 'The consent is unknown, expired or already used. Begin a new one.' });
}

const outcomes = ['consent_code', 'error'] as const;

/**
 * Adds `consent_code` or `error` to a `return_to` URL and removes those of an earlier consent. A relative path stays
 * relative.
 */
function withOutcome(address: string, name: (typeof outcomes)[number], value: string): string {
  const url = new URL(address, 'http://path');
  for (const each of outcomes) url.searchParams.delete(each);
  url.searchParams.set(name, value);
  return address.startsWith('/') ? url.href.slice(url.origin.length) : url.href;
}
