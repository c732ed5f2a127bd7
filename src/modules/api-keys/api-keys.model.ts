import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  byteaColumn,
  defineRowShape,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidArrayColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { ApiKeyScope } from '#src/domain/access/api-keys.ts';

export class ApiKeyModel extends tableModel(
  'api_keys',
  {
    userId: uuidColumn(),
    orgId: uuidColumn(),
    secretId: uuidColumn(),
    secretHash: byteaColumn(),
    hint: textColumn(),
    scopes: textArrayColumn<ApiKeyScope>(),
    expiresAt: timestampColumn().nullable(),
    lastUsedAt: timestampColumn().nullable(),
    createdBy: uuidColumn(),
    createdAt: timestampColumn(),
  },
  'userId',
) {}

/** A key as admins see it. Its id is that of the user as whom it acts, and its name is that user's display name. */
export const apiKeyRowShape = defineRowShape({
  id: uuidColumn(),
  name: textColumn(),
  scopes: textArrayColumn<ApiKeyScope>(),
  teamIds: uuidArrayColumn(),
  hint: textColumn(),
  expiresAt: timestampColumn().nullable(),
  lastUsedAt: timestampColumn().nullable(),
  createdBy: uuidColumn(),
  createdByName: textColumn(),
  createdAt: timestampColumn(),
});

export type ApiKey = SqlRow<typeof apiKeyRowShape>;

export const listedApiKeyRowShape = defineRowShape({ ...apiKeyRowShape.columns, sortKey: textColumn() });
