import * as openid from 'openid-client';
import { AppError, appError, type ErrorCode } from '#src/errors.ts';
import type { OAuthClient, OAuthProvider, OAuthTokens } from '#src/ports/identity.ts';
import type { ProviderHttpClient } from '#src/ports/web.ts';

type TokenAnswer = Awaited<ReturnType<typeof openid.refreshTokenGrant>>;

export function createOAuthClient({ call }: { call: ProviderHttpClient }): OAuthClient {
  function configurationOf(provider: OAuthProvider): openid.Configuration {
    const { issuer, authorizeUrl, tokenUrl, revokeUrl, client } = provider;
    const server = {
      issuer,
      authorization_endpoint: authorizeUrl,
      token_endpoint: tokenUrl,
      ...(revokeUrl !== null && { revocation_endpoint: revokeUrl }),
    };
    const configuration = new openid.Configuration(server, client.id, client.secret);
    configuration[openid.customFetch] = createOAuthFetch(call);
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
        throw toOAuthError(error, 'consent_invalid');
      }
    },

    async refresh(provider, refreshToken) {
      try {
        return tokensOf(await openid.refreshTokenGrant(configurationOf(provider), refreshToken));
      } catch (error) {
        throw toOAuthError(error, 'needs_reauth');
      }
    },

    async revoke(provider, token) {
      if (provider.revokeUrl === null) return;
      try {
        await openid.tokenRevocation(configurationOf(provider), token);
      } catch (error) {
        // `invalid_token` is Google's error for an unknown token, which RFC 7009 counts as revoked.
        if (error instanceof openid.ResponseBodyError && error.error === 'invalid_token') return;
        throw toOAuthError(error, 'provider_rejected');
      }
    },
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

/** Lets openid-client send its requests through a {@link ProviderHttpClient}, which limits hosts, time and size. */
export function createOAuthFetch(call: ProviderHttpClient): openid.CustomFetch {
  return async (url, { method, headers, body, signal }) => {
    const answer = await call(url, {
      method: method === 'GET' ? 'GET' : 'POST',
      headers,
      ...(body !== undefined && body !== null && { body: String(body) }),
      ...(signal !== undefined && { signal }),
    });
    // The Response constructor throws if a status like 204 comes with a body.
    const isEmpty = [204, 205, 304].includes(answer.status);
    return new Response(isEmpty ? null : answer.body, { status: answer.status, headers: answer.headers });
  };
}

/**
 * Maps errors of openid-client to error codes. Leaves out the cause, because openid-client's errors may quote secrets.
 * `ofGrant` is the code for a rejected authorization code or refresh token.
 */
export function toOAuthError(error: unknown, ofGrant: ErrorCode): unknown {
  if (error instanceof Error && error.cause instanceof AppError) return error.cause;
  if (!failuresOfCalls.some((kind) => error instanceof kind)) return error;
  const { status, oauthError } = rejectionOf(error);
  if (oauthError === 'invalid_grant') return appError(ofGrant);
  if (status === 401 || clientErrors.includes(oauthError)) return appError('provider_not_configured');
  if (status !== null) return appError('provider_rejected', { detail: 'The OAuth provider rejects the request.' });
  return appError('provider_unavailable', { detail: "The provider's token endpoint does not give a valid answer." });
}

/**
 * Classes of openid-client's errors about a provider's response; for wrong arguments, it throws a TypeError instead.
 */
const failuresOfCalls = [
  openid.ClientError,
  openid.ResponseBodyError,
  openid.AuthorizationResponseError,
  openid.WWWAuthenticateChallengeError,
];

/** OAuth errors of a wrong client registration (RFC 6749 §5.2; `redirect_uri_mismatch` is Google's). */
const clientErrors = ['invalid_client', 'unauthorized_client', 'redirect_uri_mismatch'];

/**
 * Returns the status and the OAuth error of a 4xx response. For a 429 and for any other failure, the status is null.
 */
function rejectionOf(error: unknown): { status: number | null; oauthError: string } {
  const isAnswered = error instanceof openid.ResponseBodyError || error instanceof openid.WWWAuthenticateChallengeError;
  const answer = isAnswered ? error : error instanceof openid.ClientError ? error.cause : null;
  const status: unknown = Object(answer).status;
  if (typeof status !== 'number' || status < 400 || status >= 500 || status === 429) {
    return { status: null, oauthError: '' };
  }
  return { status, oauthError: error instanceof openid.ResponseBodyError ? error.error : '' };
}
