import type { StoredResponse } from '#src/ports/idempotency-store.ts';
import { model } from './base-model.ts';
import { integer, json, text, timestamp, uuid } from './shapes.ts';

export class IdempotencyKeyModel extends model(
  'idempotency_keys',
  {
    userId: uuid(),
    route: text(),
    key: text(),
    fingerprint: text(),
    responseStatus: integer().nullable(),
    responseHeaders: json<Record<string, string>>().nullable(),
    /** A JSON string within JSON, because jsonb reorders fields; older rows have plain JSON. Read it by `table`, because
     * `query` would parse it twice. */
    responseBody: json<string | StoredResponse['body']>().nullable(),
    reservedId: uuid(),
    leaseOwner: uuid(),
    leaseExpiresAt: timestamp(),
    createdAt: timestamp(),
  },
  ['userId', 'route', 'key'],
) {}
