import type { StoredResponse } from '#src/ports/idempotency-store.ts';
import { model } from './base-model.ts';
import { bytea, integer, json, text, timestamp, uuid } from './shapes.ts';

export class ModelCallModel extends model('model_calls', {
  id: uuid(),
  orgId: uuid(),
  model: text(),
  expiresAt: timestamp(),
}) {}

export class ModelPauseModel extends model(
  'model_pauses',
  {
    model: text(),
    notBefore: timestamp(),
    width: integer(),
  },
  'model',
) {}

export class RateLimitModel extends model(
  'rate_limits',
  {
    name: text(),
    subject: bytea(),
    used: integer(),
    endsAt: timestamp(),
  },
  ['name', 'subject'],
) {}

export class IdempotencyKeyModel extends model(
  'idempotency_keys',
  {
    userId: uuid(),
    route: text(),
    key: text(),
    fingerprint: text(),
    responseStatus: integer().nullable(),
    responseHeaders: json<Record<string, string>>().nullable(),
    /**
     * The response body is stored as a JSON string inside jsonb, because jsonb alone reorders fields; older rows hold
     * plain JSON. Read the column by `table(db)`, because `query(db)` would parse it twice.
     */
    responseBody: json<string | StoredResponse['body']>().nullable(),
    reservedId: uuid(),
    leaseOwner: uuid(),
    leaseExpiresAt: timestamp(),
    createdAt: timestamp(),
  },
  ['userId', 'route', 'key'],
) {}
