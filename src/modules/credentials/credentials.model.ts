import {
  defineRowShape,
  integerColumn,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';

export type CredentialsTable = 'tool_connections' | 'connections';

export type OAuthGrant = { kind: 'oauth'; accessToken: string; refreshToken: string | null };

export const storedCredentialsRowShape = defineRowShape({
  id: uuidColumn(),
  orgId: uuidColumn(),
  provider: textColumn(),
  status: textColumn(),
  credentials: textColumn(),
  scopes: textArrayColumn(),
  /** When the access token expires; null if the credentials have no access token or the provider states no expiry. */
  expiresAt: timestampColumn().nullable(),
  /** Incremented when the credentials change, but not when they are re-encrypted. */
  generation: integerColumn(),
});
export type StoredCredentials = SqlRow<typeof storedCredentialsRowShape>;

export type CredentialsGenerationKey = Pick<StoredCredentials, 'orgId' | 'id' | 'generation'>;

export type NewCredentials = Pick<StoredCredentials, 'credentials' | 'scopes' | 'expiresAt'>;
