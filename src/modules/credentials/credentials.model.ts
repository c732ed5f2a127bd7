import { integer, type Row, shape, text, textArray, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';

export type CredentialsTable = 'tool_connections' | 'connections';

export type OAuthGrant = { kind: 'oauth'; accessToken: string; refreshToken: string | null };

/** Columns that every table of credentials has. */
export const storedCredentials = shape({
  id: uuid(),
  orgId: uuid(),
  provider: text(),
  status: text(),
  /** Credentials as JSON, encrypted for this row. */
  credentials: text(),
  /** OAuth scopes as granted, which may differ from those requested. */
  scopes: textArray(),
  /** When the access token expires; null if there is none, or the provider does not say. */
  expiresAt: timestamp().nullable(),
  /** Incremented when the credentials change; re-encrypting them does not count. */
  generation: integer(),
});
export type StoredCredentials = Row<typeof storedCredentials>;

/** Condition of an update, which changes nothing if the credentials have another generation by then. */
export type CredentialsState = Pick<StoredCredentials, 'orgId' | 'id' | 'generation'>;

/** Columns that change with the credentials, which are encrypted. */
export type NewCredentials = Pick<StoredCredentials, 'credentials' | 'scopes' | 'expiresAt'>;
