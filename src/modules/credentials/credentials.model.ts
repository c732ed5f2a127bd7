import { integer, type Row, shape, text, textArray, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';

export type CredentialsTable = 'tool_connections' | 'connections';

export type OAuthGrant = { kind: 'oauth'; accessToken: string; refreshToken: string | null };

export const storedCredentialsShape = shape({
  id: uuid(),
  orgId: uuid(),
  provider: text(),
  status: text(),
  credentials: text(),
  /** OAuth scopes that the provider granted, which may differ from the requested ones. */
  scopes: textArray(),
  /** When the access token expires; null if the credentials have no access token or the provider states no expiry. */
  expiresAt: timestamp().nullable(),
  /** Incremented when the credentials change, but not when they are re-encrypted. */
  generation: integer(),
});
export type StoredCredentials = Row<typeof storedCredentialsShape>;

export type CredentialsRevision = Pick<StoredCredentials, 'orgId' | 'id' | 'generation'>;

export type NewCredentials = Pick<StoredCredentials, 'credentials' | 'scopes' | 'expiresAt'>;
