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
    responseBody: json<unknown>().nullable(),
    reservedId: uuid(),
    leaseOwner: uuid(),
    leaseExpiresAt: timestamp(),
    createdAt: timestamp(),
  },
  ['userId', 'route', 'key'],
) {}
