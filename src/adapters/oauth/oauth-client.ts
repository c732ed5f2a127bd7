import * as openid from 'openid-client';
import { AppError, appError, type ErrorCode } from '#src/errors.ts';
import type { OAuthClient, OAuthProvider, OAuthTokens } from '#src/ports/oauth-client.ts';
import type { ProviderCaller } from '#src/ports/provider-caller.ts';

type TokenAnswer = Awaited<ReturnType<typeof openid.refreshTokenGrant>>;

/** Speaks to any provider that keeps to the standards; what is special about one stands in its settings. */
export function createOAuthClient({ call }: { call: ProviderCaller }): OAuthClient {
  function configurationOf(provider: OAuthProvider): openid.Configuration {
    const { issuer, authorizeUrl, tokenUrl, revokeUrl, client } = provider;
    const server = {
      issuer,
      authorization_endpoint: authorizeUrl,
      token_endpoint: tokenUrl,
      ...(revokeUrl !== null && { revocation_endpoint: revokeUrl }),
    };
    const configuration = new openid.Configuration(server, client.id, client.secret);
    configuration[openid.customFetch] = fetchBy(call);
    // Whoever has set an address without TLS knows why.
    if (tokenUrl.startsWith('http:')) openid.allowInsecureRequests(configuration);
    return configuration;
  }

  return {
    newCodeVerifier: openid.randomPKCECodeVerifier,

    async authorizeUrl(provider, { state, codeVerifier, redirectUri, scopes }) {
      const url = openid.buildAuthorizationUrl(configurationOf(provider), {
        ...provider.authorizeParameters,
        redirect_uri: redirectUri,
        scope: scopes.join(' '),
        state,
        code_challenge: await openid.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
      });
      return url.href;
    },

    async exchange(provider, { code, issuer, codeVerifier, redirectUri }) {
      if (issuer !== undefined && issuer !== provider.issuer) throw appError('consent_invalid');
      const callback = new URL(redirectUri);
      callback.searchParams.set('code', code);
      try {
        const checks = { pkceCodeVerifier: codeVerifier };
        return tokensOf(await openid.authorizationCodeGrant(configurationOf(provider), callback, checks));
      } catch (error) {
        throw failureOf(error, 'consent_invalid');
      }
    },

    async refresh(provider, refreshToken) {
      try {
        return tokensOf(await openid.refreshTokenGrant(configurationOf(provider), refreshToken));
      } catch (error) {
        throw failureOf(error, 'needs_reauth');
      }
    },

    async revoke(provider, token) {
      if (provider.revokeUrl === null) return;
      try {
        await openid.tokenRevocation(configurationOf(provider), token);
      } catch (error) {
        // Google's word for a token that is gone; by the standard that is a success.
        if (error instanceof openid.ResponseBodyError && error.error === 'invalid_token') return;
        throw failureOf(error, 'provider_rejected');
      }
    },
  };
}

function fetchBy(call: ProviderCaller): openid.CustomFetch {
  return async (url, { method, headers, body, signal }) => {
    const answer = await call(url, {
      method: method === 'GET' ? 'GET' : 'POST',
      headers,
      ...(body !== undefined && body !== null && { body: String(body) }),
      ...(signal !== undefined && { signal }),
    });
    // A status that may have no body takes none.
    const isEmpty = answer.status === 204 || answer.status === 304;
    return new Response(isEmpty ? null : answer.body, { status: answer.status, headers: answer.headers });
  };
}

function tokensOf(answer: TokenAnswer): OAuthTokens {
  const lifetimeSeconds = answer.expires_in;
  return {
    accessToken: answer.access_token,
    expiresAt: lifetimeSeconds === undefined ? null : new Date(Date.now() + lifetimeSeconds * 1_000),
    refreshToken: answer.refresh_token ?? null,
    scopes: answer.scope?.split(' ').filter(Boolean) ?? null,
  };
}

/** Without the cause, which quotes the provider: its answer may quote what it was sent. */
function failureOf(error: unknown, ofGrant: ErrorCode): AppError {
  if (error instanceof Error && error.cause instanceof AppError) return error.cause;
  const { status, word } = refusalOf(error);
  if (word === 'invalid_grant') return appError(ofGrant);
  if (status === 401 || faultsOfClient.includes(word)) return appError('provider_not_configured');
  if (status !== null) return appError('provider_rejected', { detail: 'It refuses what it is asked for.' });
  return appError('provider_unavailable', { detail: 'It does not answer as a provider of tokens does.' });
}

/** Of RFC 6749, and Google's for a redirect address that nobody has registered. */
const faultsOfClient = ['invalid_client', 'unauthorized_client', 'redirect_uri_mismatch'];

/** What a provider refuses with, in a 4xx; null for whatever else went wrong. */
function refusalOf(error: unknown): { status: number | null; word: string } {
  const isAnswered = error instanceof openid.ResponseBodyError || error instanceof openid.WWWAuthenticateChallengeError;
  const answer = isAnswered ? error : error instanceof openid.ClientError ? error.cause : null;
  const status: unknown = Object(answer).status;
  if (typeof status !== 'number' || status < 400 || status >= 500 || status === 429) return { status: null, word: '' };
  return { status, word: error instanceof openid.ResponseBodyError ? error.error : '' };
}
