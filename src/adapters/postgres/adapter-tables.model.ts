import type { StoredResponse } from '#src/ports/idempotency-store.ts';
import { tableModel } from './base-model.ts';
import { byteaColumn, integerColumn, jsonColumn, textColumn, timestampColumn, uuidColumn } from './shapes.ts';

export class ModelCallModel extends tableModel('model_calls', {
  id: uuidColumn(),
  orgId: uuidColumn(),
  model: textColumn(),
  expiresAt: timestampColumn(),
}) {}

export class OverloadedModelPauseModel extends tableModel(
  'model_pauses',
  {
    model: textColumn(),
    notBefore: timestampColumn(),
    width: integerColumn(),
  },
  'model',
) {}

export class RateLimitModel extends tableModel(
  'rate_limits',
  {
    name: textColumn(),
    subject: byteaColumn(),
    used: integerColumn(),
    endsAt: timestampColumn(),
  },
  ['name', 'subject'],
) {}

export class IdempotencyKeyModel extends tableModel(
  'idempotency_keys',
  {
    userId: uuidColumn(),
    route: textColumn(),
    key: textColumn(),
    fingerprint: textColumn(),
    responseStatus: integerColumn().nullable(),
    responseHeaders: jsonColumn<Record<string, string>>().nullable(),
    /**
     * The response body is stored as a JSON string inside jsonb, because jsonb alone reorders fields; older rows hold
     * plain JSON. Read the column by `table(db)`, because `query(db)` would parse it twice.
     */
    responseBody: jsonColumn<string | StoredResponse['body']>().nullable(),
    reservedId: uuidColumn(),
    leaseOwner: uuidColumn(),
    leaseExpiresAt: timestampColumn(),
    createdAt: timestampColumn(),
  },
  ['userId', 'route', 'key'],
) {}
