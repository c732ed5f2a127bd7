import { model } from '#src/adapters/postgres/base-model.ts';
import { integer, json, type Row, text, textArray, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { ConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { SyncConfig } from '#src/domain/documents/sync-schedule.ts';
import type { OAuthGrant } from '#src/modules/credentials/credentials.model.ts';

export class ConnectionModel extends model('connections', {
  id: uuid(),
  orgId: uuid(),
  userId: uuid(),
  provider: text<ConnectorProvider>(),
  displayName: text(),
  status: text<ConnectionStatus>(),
  lastError: text().nullable(),
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

type ConnectionStatus = 'pending' | 'active' | 'needs_reauth' | 'error';

/** Settings of a connection; field names as in the API, because they are returned unchanged. */
export type ConnectionConfig = {
  site_id?: string | undefined;
  bucket?: string | undefined;
  prefix?: string | undefined;
  region?: string | undefined;
  endpoint?: string | undefined;
  force_path_style?: boolean | undefined;
  sync?: SyncConfig | undefined;
};

export type StoredS3Keys = { kind: 'keys'; accessKeyId: string; secretAccessKey: string; sessionToken: string | null };

export type ConnectionCredentials = OAuthGrant | StoredS3Keys;

export type Connection = Row<typeof ConnectionModel>;

export type ConnectionView = Connection & { credentialsMasked: Record<string, string> };
