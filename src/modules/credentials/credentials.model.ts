import { integer, type Row, text, textArray, timestamp, uuid } from '#src/adapters/postgres/columns.ts';
import { shape } from '#src/adapters/postgres/shapes.ts';

/** Tables whose rows hold sealed credentials. */
export type CredentialsTable = 'tool_connections' | 'connections';

/** The tokens of a grant. */
export type OAuthGrant = { kind: 'oauth'; accessToken: string; refreshToken: string | null };

/** What every row with credentials has. */
export const storedCredentials = shape({
  id: uuid(),
  orgId: uuid(),
  provider: text(),
  status: text(),
  /** As JSON, sealed for the row. */
  credentials: text(),
  /** What was really granted. */
  scopes: textArray(),
  /** Of the access token; null where there is none, or it is not known. */
  expiresAt: timestamp().nullable(),
  /** Changes with the credentials. */
  generation: integer(),
});
export type StoredCredentials = Row<typeof storedCredentials>;

/** Names one state of a connection: nothing is changed once it has another one. */
export type CredentialsState = Pick<StoredCredentials, 'orgId' | 'id' | 'generation'>;

/** What changes when credentials do; they are sealed. */
export type NewCredentials = Pick<StoredCredentials, 'credentials' | 'scopes' | 'expiresAt'>;
