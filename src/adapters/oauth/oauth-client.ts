import * as openid from 'openid-client';
import { appError } from '#src/errors.ts';
import type { OAuthClient, OAuthProvider, OAuthTokens } from '#src/ports/identity.ts';
import type { ProviderCaller } from '#src/ports/web.ts';
import { failureOf, fetchBy } from './provider-answers.ts';

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

function tokensOf(answer: TokenAnswer): OAuthTokens {
  const lifetimeSeconds = answer.expires_in;
  return {
    accessToken: answer.access_token,
    expiresAt: lifetimeSeconds === undefined ? null : new Date(Date.now() + lifetimeSeconds * 1_000),
    refreshToken: answer.refresh_token ?? null,
    scopes: answer.scope?.split(' ').filter(Boolean) ?? null,
  };
}
