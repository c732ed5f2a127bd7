import { model } from '#src/adapters/postgres/base-model.ts';
import { integer, json, type Row, text, textArray, timestamp, uuid } from '#src/adapters/postgres/columns.ts';
import type { ConnectorProvider } from '#src/domain/documents/imports.ts';
import type { OAuthGrant } from '#src/modules/credentials/credentials.model.ts';
import type { SyncConfig } from './connections.schema.ts';

export class ConnectionModel extends model('connections', {
  id: uuid(),
  orgId: uuid(),
  userId: uuid(),
  provider: text<ConnectorProvider>(),
  displayName: text(),
  status: text<ConnectionStatus>(),
  /** A code and words; null where it works. */
  lastError: text().nullable(),
  /** Whose files they are at the provider. */
  accountId: text(),
  config: json<ConnectionConfig>(),
  credentials: text(),
  scopes: textArray(),
  expiresAt: timestamp().nullable(),
  generation: integer(),
  refreshUntil: timestamp().nullable(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
  version: integer(),
}) {}

export type ConnectionStatus = 'pending' | 'active' | 'needs_reauth' | 'error';

/** What the provider is asked for, and how it is synchronized: as it came, in the spelling of the wire. */
export type ConnectionConfig = {
  site_id?: string | undefined;
  bucket?: string | undefined;
  prefix?: string | undefined;
  region?: string | undefined;
  endpoint?: string | undefined;
  force_path_style?: boolean | undefined;
  sync?: SyncConfig | undefined;
};

export type StoredKeys = { kind: 'keys'; accessKeyId: string; secretAccessKey: string; sessionToken: string | null };

export type ConnectionCredentials = OAuthGrant | StoredKeys;

/** A user's way to files that a provider keeps for him. */
export type Connection = Row<typeof ConnectionModel>;

/** With its secrets as its owner may see them. */
export type ConnectionView = Connection & { credentialsMasked: Record<string, string> };
