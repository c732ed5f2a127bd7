/** A sign-in that has begun, kept until the browser returns. Nonce and verifier are unguessable and used once. */
export type SignInAttempt = { nonce: string; codeVerifier: string; redirectUri: string };

/** Parameters of the callback; `issuer` is its `iss` (RFC 9207) if the client passed it on. */
export type SignInAnswer = { code: string; issuer: string | undefined };

/** What the sign-in strategy is asked for: to begin a sign-in, or to finish one. */
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
