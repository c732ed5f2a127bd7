import type { StoredResponse } from '#src/ports/idempotency-store.ts';
import { model } from './base-model.ts';
import { integer, json, text, timestamp, uuid } from './columns.ts';

export class IdempotencyKeyModel extends model(
  'idempotency_keys',
  {
    userId: uuid(),
    route: text(),
    key: text(),
    fingerprint: text(),
    responseStatus: integer().nullable(),
    responseHeaders: json<Record<string, string>>().nullable(),
    /** As JSON within JSON, since `jsonb` would put the fields in another order; what was kept before that is plain.
     * Read by `table`: `query` would parse it a second time. */
    responseBody: json<string | StoredResponse['body']>().nullable(),
    reservedId: uuid(),
    leaseOwner: uuid(),
    leaseExpiresAt: timestamp(),
    createdAt: timestamp(),
  },
  ['userId', 'route', 'key'],
) {}
