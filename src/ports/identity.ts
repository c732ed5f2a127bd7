/** Claims of an access token. Only the user and session are trusted; rights are read from the database. */
export type AccessClaims = {
  userId: string;
  sessionId: string;
  orgId: string;
  teamIds: readonly string[];
  teamAdminOf: readonly string[];
  isOrgAdmin: boolean;
  tier: string;
};

/** The authenticated user and session of a request. */
export type Caller = Pick<AccessClaims, 'userId' | 'sessionId'>;

/** Public keys (RFC 7517). */
export type JsonWebKeySet = { keys: { kty: 'RSA'; use: 'sig'; alg: 'RS256'; kid: string; n: string; e: string }[] };

/** Signs and verifies access tokens (JWT of type `at+jwt`, RS256). */
export type AccessTokens = {
  readonly lifetimeSeconds: number;
  sign(claims: AccessClaims): Promise<string>;
  /**
   * Synchronous; caches the result until the token expires. Throws `invalid_token` for a token that this service did not
   * sign, that is not an access token, or that has expired.
   */
  verify(token: string): Caller;
  /** Every key that tokens are accepted from, beginning with the key that signs new tokens. */
  keySet(): JsonWebKeySet;
};

/**
 * Hashes passwords. An owner is an organization, or the network of a client that is not signed in; owners take turns.
 * Throws `service_unavailable` when an owner has too many requests waiting.
 */
export type PasswordHasher = {
  hash(password: string, owner: string): Promise<string>;
  /** Takes equally long for an unknown account (`hash` null), which is never verified. */
  verify(hash: string | null, password: string, owner: string): Promise<boolean>;
  /** Whether the hash was made with other parameters than `hash` uses now. */
  isOutdated(hash: string): boolean;
};

/** A sign-in that has begun, kept until the browser returns. Nonce and verifier are unguessable and used once. */
export type SignInAttempt = { nonce: string; codeVerifier: string; redirectUri: string };

/** Parameters of the callback; `issuer` is its `iss` (RFC 9207) if the client passed it on. */
export type SignInAnswer = { code: string; issuer: string | undefined };

/** Input of the sign-in strategy: begins a sign-in, or finishes one. */
export type SignInRequest = { redirectUri: string; state: string } | (SignInAttempt & { answer: SignInAnswer });

/** A user as the provider identifies them. */
export type Identity = {
  issuer: string;
  /** Identifies the user at the issuer permanently; an email does not. */
  subject: string;
  /** The other claims (OpenID Connect Core 1.0, §5.1), unchanged. */
  claims: Readonly<Record<string, unknown>>;
};

/**
 * The OpenID Connect provider of the deployment: the authorization code flow with PKCE. In addition to the errors below,
 * both calls throw `provider_unavailable`, `provider_rejected` and `provider_response_invalid`.
 */
export type IdentityProvider = {
  /** Begins a sign-in with the given state; `url` is where the user's browser must go. */
  begin(request: { redirectUri: string; state: string }): Promise<SignInAttempt & { url: string }>;
  /**
   * Returns the user who signed in: from an ID token whose signature, issuer, audience, expiry and nonce were checked,
   * and the userinfo of the same subject. Throws `sign_in_invalid` if the provider does not accept the code,
   * `identity_not_verified`, and `provider_not_configured` if it refuses our client.
   */
  identify(attempt: SignInAttempt, answer: SignInAnswer): Promise<Identity>;
};

/** Endpoints of an OAuth provider and this deployment's client there. */
export type OAuthProvider = {
  issuer: string;
  authorizeUrl: string;
  tokenUrl: string;
  /** Null where the provider has no revocation endpoint. */
  revokeUrl: string | null;
  client: { id: string; secret: string };
  /** Non-standard parameters, such as `access_type`. */
  authorizeParameters: Readonly<Record<string, string>>;
};

export type OAuthTokens = {
  accessToken: string;
  /** Null where the provider does not say. */
  expiresAt: Date | null;
  /** Null if the response has none; after a refresh the previous one stays valid. */
  refreshToken: string | null;
  /** Null if the response does not name them: they equal the requested ones. */
  scopes: string[] | null;
};

export type ConsentRequest = {
  state: string;
  codeVerifier: string;
  redirectUri: string;
  scopes: readonly string[];
};

/**
 * The authorization code grant with PKCE (RFC 6749, 7636), refresh and revocation. In addition to the errors below, each
 * call throws `provider_unavailable` (no response, 5xx or 429), which says nothing about the grant, and
 * `provider_not_configured` if the provider refuses our client.
 */
export type OAuthClient = {
  /** @returns an unguessable verifier for one consent */
  newCodeVerifier(): string;
  /** @returns the URL at which the user gives the consent */
  authorizeUrl(provider: OAuthProvider, request: ConsentRequest): Promise<string>;
  /** Throws `consent_invalid` if the provider does not accept the code. `issuer` is the callback's `iss` (RFC 9207). */
  exchange(
    provider: OAuthProvider,
    consent: { code: string; issuer: string | undefined; codeVerifier: string; redirectUri: string },
  ): Promise<OAuthTokens>;
  /** Throws `needs_reauth` if the grant is no longer valid. */
  refresh(provider: OAuthProvider, refreshToken: string): Promise<OAuthTokens>;
  /** RFC 7009. Revoking an unknown token is no error. */
  revoke(provider: OAuthProvider, token: string): Promise<void>;
};
