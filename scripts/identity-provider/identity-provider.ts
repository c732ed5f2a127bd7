import Provider, { type JWK } from 'oidc-provider';
import type { ProviderAccount } from './account.ts';
import { createMemoryStore } from './memory-store.ts';
import { problemPage } from './pages.ts';
import { servePages } from './serve-pages.ts';

/** The authorization code lives long enough for a user to copy it into a shell. */
const CODE_SECONDS = 600;
const HOUR_SECONDS = 3_600;

export type IdentityProviderOptions = {
  /** Issuer URL without a path, such as `http://127.0.0.1:3020`. */
  issuer: string;
  client: { id: string; secret: string };
  /** Origins that a redirect URI may have, with any path. */
  redirectOrigins: readonly string[];
  signingKey: JWK;
  cookieKey: string;
  /** Accounts are read on each request, so that tests can add some later. */
  accounts: readonly ProviderAccount[];
  apiUrl: string;
};

/**
 * An OpenID provider with login and consent pages, for tests and trials: code flow with PKCE, one client, user claims
 * from the userinfo endpoint only. Its `callback()` must be served at `issuer`.
 */
export function createIdentityProvider(options: IdentityProviderOptions): Provider {
  const { issuer, client, redirectOrigins, signingKey, cookieKey, accounts, apiUrl } = options;
  const provider = new Provider(issuer, {
    adapter: createMemoryStore(),
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        client_name: 'Agent Conversation Service',
        token_endpoint_auth_method: 'client_secret_post',
        redirect_uris: redirectOrigins.map((origin) => `${origin}/`),
      },
    ],
    jwks: { keys: [signingKey] },
    cookies: { keys: [cookieKey] },
    claims: {
      openid: ['sub'],
      email: ['email', 'email_verified'],
      profile: ['name', 'given_name', 'family_name', 'picture'],
    },
    findAccount: async (_context, sub) => {
      const account = accounts.find((each) => each.sub === sub);
      return account && { accountId: sub, claims: async () => ({ ...account.claims, sub }) };
    },
    features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: false } },
    pkce: { required: () => true },
    ttl: {
      AuthorizationCode: CODE_SECONDS,
      AccessToken: HOUR_SECONDS,
      IdToken: HOUR_SECONDS,
      Interaction: HOUR_SECONDS,
      Session: HOUR_SECONDS,
      Grant: HOUR_SECONDS,
    },
    clientBasedCORS: () => false,
    renderError: (context, { error, error_description: description }) => {
      context.type = 'html';
      context.body = problemPage(error, description ?? 'The provider refuses this request.');
    },
  });

  // Allows any path, because frontends choose their own; SSO_REDIRECT_ORIGINS lists the allowed origins.
  provider.Client.prototype.redirectUriAllowed = (uri) =>
    URL.canParse(uri) && redirectOrigins.includes(new URL(uri).origin);
  provider.use(servePages({ provider, accounts, apiUrl }));
  return provider;
}
