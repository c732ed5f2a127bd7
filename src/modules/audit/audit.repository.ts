import type { Knex } from 'knex';
import { type AuditEntry, AuditEntryModel, type AuditRow } from './audit.model.ts';

/** All that is given has to fit. `userId` is who acted or was acted on; of an action also its beginning does. */
export type AuditFilter = {
  orgId?: string | undefined;
  userId?: string | undefined;
  action?: string | undefined;
  since?: Date | undefined;
};

export function createAuditRepository(db: Knex) {
  return {
    async insert(entry: AuditEntry): Promise<void> {
      await AuditEntryModel.query(db).insert({ ...entry, detail: entry.detail ?? {} });
    },

    /** Newest first. */
    async list({ orgId, userId, action, since }: AuditFilter, limit: number): Promise<AuditRow[]> {
      return AuditEntryModel.query(db)
        .where((row) => {
          if (orgId !== undefined) row.where({ orgId });
          if (userId !== undefined) row.where((users) => users.where({ actorId: userId }).orWhere({ target: userId }));
          if (action !== undefined) row.whereRaw('starts_with(action, ?)', [action]);
          if (since !== undefined) row.where('at', '>=', since);
        })
        .orderBy('id', 'desc')
        .limit(limit);
    },
  };
}
