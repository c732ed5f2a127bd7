/** Where a provider answers, and what the deployment is known as there. */
export type OAuthProvider = {
  issuer: string;
  authorizeUrl: string;
  tokenUrl: string;
  /** Null where grants cannot be revoked by a call. */
  revokeUrl: string | null;
  client: { id: string; secret: string };
  /** Beyond those of the standard, such as `access_type`. */
  authorizeParameters: Readonly<Record<string, string>>;
};

/** What a provider has granted. */
export type OAuthTokens = {
  accessToken: string;
  /** Null where the provider does not say. */
  expiresAt: Date | null;
  /** Null where none came: of a refresh, the old one goes on to hold. */
  refreshToken: string | null;
  /** Null where the answer does not say: then it is what was asked for. */
  scopes: string[] | null;
};

export type ConsentRequest = {
  state: string;
  codeVerifier: string;
  redirectUri: string;
  scopes: readonly string[];
};

/**
 * The authorization code grant with PKCE (RFC 6749, 7636), and what follows from it. Beside what is named below each
 * throws `provider_unavailable` (no answer, a 5xx, a 429), which says nothing about the grant, and
 * `provider_not_configured` where the provider refuses our client.
 */
export type OAuthClient = {
  /** Unguessable, for one consent. */
  newCodeVerifier(): string;
  /** Where the browser of whoever gives the consent has to go. */
  authorizeUrl(provider: OAuthProvider, request: ConsentRequest): Promise<string>;
  /** Throws `consent_invalid` when the provider does not take the code. `issuer` is the callback's `iss` (RFC 9207). */
  exchange(
    provider: OAuthProvider,
    consent: { code: string; issuer: string | undefined; codeVerifier: string; redirectUri: string },
  ): Promise<OAuthTokens>;
  /** Throws `needs_reauth` when the grant is over. */
  refresh(provider: OAuthProvider, refreshToken: string): Promise<OAuthTokens>;
  /** RFC 7009. Revoking what is not known there is no error. */
  revoke(provider: OAuthProvider, token: string): Promise<void>;
};
