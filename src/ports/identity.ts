import type { ApiKeyScope } from '#src/domain/access/api-keys.ts';
import type { Actor } from '#src/domain/access/visibility.ts';

/**
 * Claims of an access token. The service trusts only the user and the session; it reads permissions from the database.
 */
type AccessTokenClaims = {
  userId: string;
  sessionId: string;
  orgId: string;
  teamIds: readonly string[];
  teamAdminOf: readonly string[];
  isOrgAdmin: boolean;
  tier: string;
};

export type Caller = Pick<AccessTokenClaims, 'userId' | 'sessionId'>;

/** The user of an API key. `sessionId` is the id of the key's present secret. */
export type ApiKeyUser = { actor: Actor; sessionId: string; scopes: readonly ApiKeyScope[] };

export type JsonWebKeySet = { keys: { kty: 'RSA'; use: 'sig'; alg: 'RS256'; kid: string; n: string; e: string }[] };

export type AccessTokens = {
  readonly lifetimeSeconds: number;
  sign(claims: AccessTokenClaims): Promise<string>;
  /** Verifies an access token synchronously; the result is cached until the token expires. Throws `invalid_token`. */
  verify(token: string): Caller;
  /** Public keys whose access tokens are accepted; the first belongs to the key that signs new tokens. */
  keySet(): JsonWebKeySet;
};

/**
 * Hashes passwords. `owner` is an organization, or the network of a client that is not signed in; owners take turns.
 * Throws `service_unavailable` when an owner has too many requests waiting.
 */
export type PasswordHasher = {
  hash(password: string, owner: string): Promise<string>;
  /** For an unknown account, pass a null `hash`: the verification fails but takes as long as for a known account. */
  verify(hash: string | null, password: string, owner: string): Promise<boolean>;
  isOutdated(hash: string): boolean;
};

/**
 * State of a sign-in in progress, kept until the browser returns. `nonce` and `codeVerifier` are random and used once.
 */
export type SignInAttempt = { nonce: string; codeVerifier: string; redirectUri: string };

/** Result at the redirect URI. `issuer` is the parameter `iss` (RFC 9207), if passed on. */
type SignInCallback = { code: string; issuer: string | undefined };

export type SignInRequest = { redirectUri: string; state: string } | (SignInAttempt & { answer: SignInCallback });

export type VerifiedIdentity = {
  issuer: string;
  /** The user's permanent id at the issuer; an email address may change. */
  subject: string;
  claims: Readonly<Record<string, unknown>>;
};

/**
 * The OpenID Connect provider of the deployment, used with the authorization code flow and PKCE. In addition to the
 * errors below, both calls throw `provider_unavailable`, `provider_rejected` and `provider_response_invalid`.
 */
export type IdentityProvider = {
  begin(request: { redirectUri: string; state: string }): Promise<SignInAttempt & { url: string }>;
  /** Exchanges the code for a verified ID token. Throws `sign_in_invalid`, `identity_not_verified`. */
  identify(attempt: SignInAttempt, answer: SignInCallback): Promise<VerifiedIdentity>;
};

export type OAuthProvider = {
  issuer: string;
  authorizeUrl: string;
  tokenUrl: string;
  revokeUrl: string | null;
  client: { id: string; secret: string };
  authorizeParameters: Readonly<Record<string, string>>;
};

export type OAuthTokens = {
  accessToken: string;
  expiresAt: Date | null;
  /** Null if the response has no refresh token: then the previous one stays valid. */
  refreshToken: string | null;
  /** Null if the response names no scopes: then they equal the requested ones. */
  scopes: string[] | null;
};

type OAuthConsentRequest = {
  state: string;
  codeVerifier: string;
  redirectUri: string;
  scopes: readonly string[];
};

/**
 * OAuth client: authorization code grant with PKCE (RFC 6749, 7636), refresh and revocation. In addition to the errors
 * below, each call throws `provider_unavailable` (no response, 5xx or 429), after which the grant may still be valid,
 * and `provider_not_configured` if the provider rejects our client credentials.
 */
export type OAuthClient = {
  newCodeVerifier(): string;
  authorizeUrl(provider: OAuthProvider, request: OAuthConsentRequest): Promise<string>;
  /** Exchanges an authorization code. Throws `consent_invalid` if rejected. `issuer`: `iss` (RFC 9207). */
  exchange(
    provider: OAuthProvider,
    consent: { code: string; issuer: string | undefined; codeVerifier: string; redirectUri: string },
  ): Promise<OAuthTokens>;
  refresh(provider: OAuthProvider, refreshToken: string): Promise<OAuthTokens>;
  revoke(provider: OAuthProvider, token: string): Promise<void>;
};
