/** What a token says about its user. All but the user is a hint: rights are read from the database. */
export type AccessClaims = {
  userId: string;
  sessionId: string;
  orgId: string;
  teamIds: readonly string[];
  teamAdminOf: readonly string[];
  isOrgAdmin: boolean;
  tier: string;
};

/** Who a token speaks for: a user, in one of his sessions. */
export type Caller = Pick<AccessClaims, 'userId' | 'sessionId'>;

/** Public keys as RFC 7517 has them. */
export type JsonWebKeySet = { keys: { kty: 'RSA'; use: 'sig'; alg: 'RS256'; kid: string; n: string; e: string }[] };

/** Signs and checks access tokens (JWT of type `at+jwt`, RS256). */
export type AccessTokens = {
  readonly lifetimeSeconds: number;
  sign(claims: AccessClaims): Promise<string>;
  /**
   * Synchronous, and cached until the token expires. Throws `invalid_token` for a token that this service did not sign,
   * that is not an access token, or that has expired.
   */
  verify(token: string): Caller;
  /** Every key that a token is accepted from, that of new tokens first. */
  keySet(): JsonWebKeySet;
};
