import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  integerColumn,
  jsonColumn,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { ConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { SyncConfig } from '#src/domain/documents/sync-schedule.ts';
import type { OAuthGrant } from '#src/modules/credentials/credentials.model.ts';

export class ConnectionModel extends tableModel('connections', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  userId: uuidColumn(),
  provider: textColumn<ConnectorProvider>(),
  displayName: textColumn(),
  status: textColumn<ConnectionStatus>(),
  lastError: textColumn().nullable(),
  accountId: textColumn(),
  config: jsonColumn<ConnectionConfig>(),
  credentials: textColumn(),
  scopes: textArrayColumn(),
  expiresAt: timestampColumn().nullable(),
  generation: integerColumn(),
  refreshUntil: timestampColumn().nullable(),
  createdAt: timestampColumn(),
  updatedAt: timestampColumn(),
  version: integerColumn(),
}) {}

type ConnectionStatus = 'pending' | 'active' | 'needs_reauth' | 'error';

/** Settings of a connection. Their names are those of the API, because responses contain them unchanged. */
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

export type Connection = SqlRow<typeof ConnectionModel>;

export type ConnectionView = Connection & { credentialsMasked: Record<string, string> };
