import { returnAddress } from '#src/domain/return-address.ts';
import type { RequestActor } from '#src/domain/visibility.ts';
import { AppError, appError, fieldError } from '#src/errors.ts';
import type { OAuthClient, OAuthProvider, OAuthTokens } from '#src/ports/oauth-client.ts';
import type { Consent, ConsentFacts, ConsentPurpose } from './consents.model.ts';
import type { OneTimeStates } from './one-time-states.service.ts';

export type { Consent, ConsentFacts } from './consents.model.ts';

/** What the browser brings back from a provider. */
export type ConsentAnswer = {
  provider: string;
  state: string;
  code: string | undefined;
  error: string | undefined;
  issuer: string | undefined;
  requestId: string;
};

/** `location` is where the browser goes next; null where it stays. */
export type ConsentResult = { location: string } | { location: null; orgId: string; connectionId: string };

export type ConsentWish = {
  purpose: ConsentPurpose;
  provider: string;
  settings: OAuthProvider;
  /** The callback, as the provider knows it. */
  redirectUri: string;
  scopes: readonly string[];
  /** Of a provider that keeps files by sites. */
  siteId?: string;
  /** As the client has sent it; the browser ends at the callback without one. */
  returnTo: string | undefined;
  /** Where the API is, for a deployment that has not said where its users are. */
  publicUrl: string;
};

/**
 * Consents of users that a provider gives us rights: what is remembered between sending somebody there and his coming
 * back. A state works once, for ten minutes, for what it was made for.
 */
export function createConsentsService(deps: {
  states: OneTimeStates<ConsentFacts>;
  oauth: OAuthClient;
  /** Where users may be sent back to. `frontendUrl` is null where the API's own origin has their pages. */
  frontend: { frontendUrl: string | null; origins: readonly string[] };
}) {
  const { states, oauth, frontend } = deps;

  function addressOf({ returnTo, publicUrl }: ConsentWish): string | null {
    if (returnTo === undefined) return null;
    const home = frontend.frontendUrl ?? new URL(publicUrl).origin;
    const address = returnAddress(returnTo, { home, origins: frontend.origins });
    if (address === null) throw fieldError('return_to', 'must be a path, or an address of an allowed origin', 'origin');
    return address;
  }

  /** Throws `consent_invalid` unless it was made for this; one that is too old says still where its browser goes. */
  async function take(state: string, made: { purpose: ConsentPurpose; provider: string }): Promise<Consent> {
    const consent = await states.take(state);
    if (consent === undefined || consent.purpose !== made.purpose || consent.provider !== made.provider) throw lost();
    return consent;
  }

  return {
    /** The address at which the caller gives his consent. Throws `validation_failed` for where he may not return to. */
    async begin({ orgId, userId }: RequestActor, wish: ConsentWish): Promise<string> {
      const { purpose, provider, settings, redirectUri, scopes } = wish;
      const returnTo = addressOf(wish);
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
        siteId: wish.siteId ?? null,
        returnTo,
      });
      return oauth.authorizeUrl(settings, { state, codeVerifier, redirectUri, scopes });
    },

    /**
     * Takes what the provider has sent the browser back with, and uses its state up. Once the state is known, what goes
     * wrong is told where the browser goes; throws what nobody else can tell: `consent_invalid`, `consent_denied`, what
     * the exchange throws, and what `complete` does.
     * @param complete makes the connection, and gives its id
     */
    async finish(
      answer: ConsentAnswer,
      made: { purpose: ConsentPurpose; settings: () => OAuthProvider },
      complete: (consent: Consent, tokens: OAuthTokens) => Promise<string>,
    ): Promise<ConsentResult> {
      const consent = await take(answer.state, { purpose: made.purpose, provider: answer.provider });
      const { orgId, returnTo, codeVerifier, redirectUri } = consent;
      try {
        if (!consent.isFresh) throw lost();
        if (answer.error !== undefined) throw appError('consent_denied');
        if (answer.code === undefined) throw appError('consent_invalid');
        const { code, issuer } = answer;
        const tokens = await oauth.exchange(made.settings(), { code, issuer, codeVerifier, redirectUri });
        const connectionId = await complete(consent, tokens);
        if (returnTo === null) return { location: null, orgId, connectionId };
        return { location: withOutcome(returnTo, 'connection_id', connectionId) };
      } catch (error) {
        if (returnTo === null || !(error instanceof AppError)) throw error;
        return { location: withOutcome(returnTo, 'error', error.code) };
      }
    },

    /** A step of the sweeper. */
    deleteExpired: () => states.deleteExpired(),
  };
}

export type ConsentsService = ReturnType<typeof createConsentsService>;

function lost(): AppError {
  return appError('consent_invalid', { detail: 'Begin the consent once more.' });
}

/** In the place of the outcome of an earlier consent, which the page may have had in its address. */
function withOutcome(address: string, name: 'connection_id' | 'error', value: string): string {
  const url = new URL(address);
  for (const each of ['connection_id', 'error']) url.searchParams.delete(each);
  url.searchParams.set(name, value);
  return url.href;
}
