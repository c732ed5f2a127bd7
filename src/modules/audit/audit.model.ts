import { model } from '#src/adapters/postgres/base-model.ts';
import { bigint, json, text, timestamp, uuid } from '#src/adapters/postgres/columns.ts';

export class AuditEntryModel extends model('audit_log', {
  id: bigint(),
  orgId: uuid().nullable(),
  actorId: uuid().nullable(),
  action: text(),
  target: text().nullable(),
  detail: json<Record<string, unknown>>(),
  requestId: text().nullable(),
  at: timestamp(),
}) {}
