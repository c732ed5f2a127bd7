import type { Knex } from 'knex';
import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  bigintColumn,
  jsonColumn,
  type SqlRow,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';

export class AuditEntryModel extends tableModel('audit_log', {
  id: bigintColumn(),
  orgId: uuidColumn().nullable(),
  actorId: uuidColumn().nullable(),
  action: textColumn(),
  target: textColumn().nullable(),
  detail: jsonColumn<Record<string, string | number | boolean | null>>(),
  requestId: textColumn().nullable(),
  at: timestampColumn(),
}) {}

export type AuditEntryRow = SqlRow<typeof AuditEntryModel>;

/** The `detail` of an audit entry must contain no secrets and no user content. */
export type AuditEntry = Omit<AuditEntryRow, 'id' | 'at' | 'detail' | 'requestId'> & {
  detail?: AuditEntryRow['detail'];
  requestId: string;
};

/**
 * Filter of audit entries; an entry must match all given fields. `userId` matches the actor or the target; `action`
 * matches the beginning of the action.
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

export async function listAuditEntries(db: Knex, filter: AuditFilter, limit: number): Promise<AuditEntryRow[]> {
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
