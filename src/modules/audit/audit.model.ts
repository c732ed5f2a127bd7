import type { Knex } from 'knex';
import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  bigintColumn,
  defineRowShape,
  jsonColumn,
  queryRows,
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

const listedEntry = defineRowShape({
  ...AuditEntryModel.columns,
  orgName: textColumn().nullable(),
  actorEmail: textColumn().nullable(),
  targetEmail: textColumn().nullable(),
});
/** An entry with the names that its ids have now; null for ids of what was erased, and for targets that are no user. */
export type ListedAuditEntry = SqlRow<typeof listedEntry>;

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

export async function listAuditEntries(db: Knex, filter: AuditFilter, limit: number): Promise<ListedAuditEntry[]> {
  const { orgId, userId, action, since } = filter;
  const query = AuditEntryModel.table(db)
    .leftJoin('organizations as o', 'o.id', 'audit_log.orgId')
    .leftJoin('users as actor', 'actor.id', 'audit_log.actorId')
    .joinRaw('left join users as target on target.id::text = audit_log.target')
    .select('audit_log.*', 'o.name as orgName', 'actor.email as actorEmail', 'target.email as targetEmail')
    .where((row) => {
      if (orgId !== undefined) row.where('audit_log.orgId', orgId);
      if (userId !== undefined)
        row.where((entry) => entry.where('actorId', userId).orWhere('audit_log.target', userId));
      if (action !== undefined) row.whereRaw('starts_with(action, ?)', [action]);
      if (since !== undefined) row.where('at', '>=', since);
    })
    .orderBy('audit_log.id', 'desc')
    .limit(limit);
  return queryRows(db, listedEntry, query);
}
