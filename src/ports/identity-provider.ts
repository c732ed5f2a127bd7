/** A sign-in that is under way. The verifier and the nonce are unguessable, and for this one alone. */
export type SignInAttempt = { nonce: string; codeVerifier: string; redirectUri: string };

/** Somebody whom the provider vouches for. */
export type Identity = {
  issuer: string;
  /** Names him at the issuer for good, which no email does. */
  subject: string;
  /** What else it says of him (OpenID Connect Core 1.0, §5.1), as it came. */
  claims: Readonly<Record<string, unknown>>;
};

/**
 * The OpenID Connect provider of the deployment: the authorization code flow with PKCE. Beside what is named below,
 * both calls throw `provider_unavailable`, and for what cannot be used `provider_rejected`, `provider_response_invalid`.
 */
export type IdentityProvider = {
  newAttempt(redirectUri: string): SignInAttempt;
  /** Where the browser of whoever signs in has to go. */
  authorizeUrl(attempt: SignInAttempt & { state: string }): Promise<string>;
  /**
   * Who has signed in: by an ID token whose signature, issuer, audience, time and nonce are right, and by what the
   * provider says of the same subject. Throws `sign_in_invalid` when it does not take the code,
   * `identity_not_verified`, and `provider_not_configured` when it refuses our client.
   * @param answer.issuer the callback's `iss` (RFC 9207), where it was passed on
   */
  identify(attempt: SignInAttempt, answer: { code: string; issuer: string | undefined }): Promise<Identity>;
};
