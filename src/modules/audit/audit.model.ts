import { model } from '#src/adapters/postgres/base-model.ts';
import { bigint, json, type Row, text, timestamp, uuid } from '#src/adapters/postgres/shapes.ts';

export class AuditEntryModel extends model('audit_log', {
  id: bigint(),
  orgId: uuid().nullable(),
  actorId: uuid().nullable(),
  action: text(),
  target: text().nullable(),
  detail: json<Record<string, string | number | boolean | null>>(),
  requestId: text().nullable(),
  at: timestamp(),
}) {}

export type AuditRow = Row<typeof AuditEntryModel>;

/** A security-relevant act. `detail` holds no secrets and no content. */
export type AuditEntry = Omit<AuditRow, 'id' | 'at' | 'detail' | 'requestId'> & {
  detail?: AuditRow['detail'];
  requestId: string;
};
