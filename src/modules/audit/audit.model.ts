import type { Knex } from 'knex';
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

/** The `detail` of an audit entry must contain no secrets and no user content. */
export type AuditEntry = Omit<AuditRow, 'id' | 'at' | 'detail' | 'requestId'> & {
  detail?: AuditRow['detail'];
  requestId: string;
};

/**
 * Filter of audit entries; all given fields must match. `userId` matches the actor or the target, `action` is a prefix.
 */
export type AuditFilter = {
  orgId?: string | undefined;
  userId?: string | undefined;
  action?: string | undefined;
  since?: Date | undefined;
};

export async function insertAuditEntry(db: Knex, entry: AuditEntry): Promise<void> {
  await AuditEntryModel.query(db).insert({ ...entry, detail: entry.detail ?? {} });
}

export async function listAuditEntries(db: Knex, filter: AuditFilter, limit: number): Promise<AuditRow[]> {
  const { orgId, userId, action, since } = filter;
  return AuditEntryModel.query(db)
    .where((row) => {
      if (orgId !== undefined) row.where({ orgId });
      if (userId !== undefined) row.where((users) => users.where({ actorId: userId }).orWhere({ target: userId }));
      if (action !== undefined) row.whereRaw('starts_with(action, ?)', [action]);
      if (since !== undefined) row.where('at', '>=', since);
    })
    .orderBy('id', 'desc')
    .limit(limit);
}
