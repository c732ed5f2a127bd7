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

/** What a good token tells, and until when. */
export type VerifiedToken = Caller & { expiresAtMs: number };

/** Public keys as RFC 7517 has them. */
export type JsonWebKeySet = { keys: { kty: 'RSA'; use: 'sig'; alg: 'RS256'; kid: string; n: string; e: string }[] };

/** Signs and checks access tokens (JWT of type `at+jwt`, RS256). */
export type AccessTokens = {
  readonly lifetimeSeconds: number;
  sign(claims: AccessClaims): Promise<string>;
  /** Without waiting for anything. Throws `invalid_token` for what is not ours, not an access token, or expired. */
  verify(token: string): VerifiedToken;
  /** Every key that a token is accepted from, that of new tokens first. */
  keySet(): JsonWebKeySet;
};
