import Provider, { type JWK } from 'oidc-provider';
import type { ProviderAccount } from './account.ts';
import { createMemoryStore } from './memory-store.ts';
import { problemPage } from './pages.ts';
import { servePages } from './serve-pages.ts';

/** Long enough for a person who copies it into a shell. */
const CODE_SECONDS = 600;
const HOUR_SECONDS = 3_600;

export type IdentityProviderOptions = {
  /** Where it is reached, without a path: `http://127.0.0.1:3020`. */
  issuer: string;
  client: { id: string; secret: string };
  /** Sign-ins may end at any address of these origins. */
  redirectOrigins: readonly string[];
  /** Signs ID tokens: a private key with `kid`. */
  signingKey: JWK;
  cookieKey: string;
  /** Looked at anew with each request: what is added later can sign in, too. */
  accounts: readonly ProviderAccount[];
  /** Where the service is whose sign-in the landing page ends. */
  apiUrl: string;
};

/**
 * An OpenID provider with forms for login and consent, for tests and for trying out: code flow with PKCE, one client,
 * claims about a person by its userinfo endpoint alone. Serve `callback()` where `issuer` says.
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

  // Frontends choose their own paths; which origins they may have is what the service's setting names.
  provider.Client.prototype.redirectUriAllowed = (uri) =>
    URL.canParse(uri) && redirectOrigins.includes(new URL(uri).origin);
  provider.use(servePages({ provider, accounts, apiUrl }));
  return provider;
}
