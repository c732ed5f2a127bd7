import { model } from '#src/adapters/postgres/base-model.ts';
import { integer, type Row, text, textArray, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';
import type { OAuthGrant } from '#src/modules/credentials/credentials.model.ts';

export class ToolConnectionModel extends model('tool_connections', {
  id: uuid(),
  orgId: uuid(),
  provider: text(),
  status: text<ConnectionStatus>(),
  credentials: text(),
  scopes: textArray(),
  expiresAt: timestamp().nullable(),
  generation: integer(),
  refreshUntil: timestamp().nullable(),
  createdAt: timestamp(),
  updatedAt: timestamp(),
}) {}

export type ConnectionStatus = 'active' | 'needs_reauth';

/** An organization's way to a provider; it has one at most. */
export type ToolConnection = Row<typeof ToolConnectionModel>;

export type ApiKey = { kind: 'api_key'; apiKey: string };

export type Credentials = ApiKey | OAuthGrant;
