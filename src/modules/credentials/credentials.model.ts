import { integer, type Row, text, textArray, timestamp, uuid } from '#src/adapters/postgres/columns.ts';
import { shape } from '#src/adapters/postgres/shapes.ts';

/** Tables whose rows have encrypted credentials. */
export type CredentialsTable = 'tool_connections' | 'connections';

export type OAuthGrant = { kind: 'oauth'; accessToken: string; refreshToken: string | null };

/** Columns that every table of credentials has. */
export const storedCredentials = shape({
  id: uuid(),
  orgId: uuid(),
  provider: text(),
  status: text(),
  /** JSON, encrypted for the row. */
  credentials: text(),
  /** As granted, which may differ from what was requested. */
  scopes: textArray(),
  /** When the access token expires; null if there is none, or the provider does not say. */
  expiresAt: timestamp().nullable(),
  /** Incremented when the credentials change; re-encrypting them does not count. */
  generation: integer(),
});
export type StoredCredentials = Row<typeof storedCredentials>;

/** Condition of an update: it changes nothing once the row has another generation. */
export type CredentialsState = Pick<StoredCredentials, 'orgId' | 'id' | 'generation'>;

/** Columns that change with the credentials, which are encrypted. */
export type NewCredentials = Pick<StoredCredentials, 'credentials' | 'scopes' | 'expiresAt'>;
