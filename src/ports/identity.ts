/** Only user and session of an access token are trusted; rights are read from the database. */
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

export type JsonWebKeySet = { keys: { kty: 'RSA'; use: 'sig'; alg: 'RS256'; kid: string; n: string; e: string }[] };

export type AccessTokens = {
  readonly lifetimeSeconds: number;
  sign(claims: AccessTokenClaims): Promise<string>;
  /** Verifies an access token synchronously; the result is cached until the token expires. Throws `invalid_token`. */
  verify(token: string): Caller;
  /** The first key of the set signs new tokens; tokens of all are accepted. */
  keySet(): JsonWebKeySet;
};

/**
 * Hashes passwords. An owner is an organization, or the network of a client that is not signed in; owners take turns.
 * Throws `service_unavailable` when an owner has too many requests waiting.
 */
export type PasswordHasher = {
  hash(password: string, owner: string): Promise<string>;
  /** Verification takes equally long for an unknown account, whose hash is null. */
  verify(hash: string | null, password: string, owner: string): Promise<boolean>;
  isOutdated(hash: string): boolean;
};

/** Nonce and verifier of a sign-in are unguessable and used once; they are kept until the browser returns. */
export type SignInAttempt = { nonce: string; codeVerifier: string; redirectUri: string };

/** `issuer` is the `iss` of the callback (RFC 9207), if the client passed it on. */
type SignInCallback = { code: string; issuer: string | undefined };

export type SignInRequest = { redirectUri: string; state: string } | (SignInAttempt & { answer: SignInCallback });

export type VerifiedIdentity = {
  issuer: string;
  /** A subject identifies the user at the issuer permanently; an email does not. */
  subject: string;
  claims: Readonly<Record<string, unknown>>;
};

/**
 * The OpenID Connect provider of the deployment: the authorization code flow with PKCE. In addition to the errors
 * below, both calls throw `provider_unavailable`, `provider_rejected` and `provider_response_invalid`.
 */
export type IdentityProvider = {
  begin(request: { redirectUri: string; state: string }): Promise<SignInAttempt & { url: string }>;
  /**
   * Checks the ID token, and that userinfo names the same subject. Throws `sign_in_invalid`, `identity_not_verified`.
   */
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
  /** If a response has no refresh token, the previous one stays valid. */
  refreshToken: string | null;
  /** If a response names no scopes, they equal the requested ones. */
  scopes: string[] | null;
};

type OAuthConsentRequest = {
  state: string;
  codeVerifier: string;
  redirectUri: string;
  scopes: readonly string[];
};

/**
 * The authorization code grant with PKCE (RFC 6749, 7636), refresh and revocation. In addition to the errors below,
 * each call throws `provider_unavailable` (no response, 5xx or 429), which says nothing about the grant, and
 * `provider_not_configured` if the provider refuses our client.
 */
export type OAuthClient = {
  newCodeVerifier(): string;
  authorizeUrl(provider: OAuthProvider, request: OAuthConsentRequest): Promise<string>;
  /**
   * Exchanges an authorization code for tokens. Throws `consent_invalid` if the provider rejects the code. `issuer` is
   * the callback's `iss` (RFC 9207).
   */
  exchange(
    provider: OAuthProvider,
    consent: { code: string; issuer: string | undefined; codeVerifier: string; redirectUri: string },
  ): Promise<OAuthTokens>;
  refresh(provider: OAuthProvider, refreshToken: string): Promise<OAuthTokens>;
  revoke(provider: OAuthProvider, token: string): Promise<void>;
};
