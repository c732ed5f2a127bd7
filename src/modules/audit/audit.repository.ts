import type { Db } from '#src/ports/database.ts';

/** A security-relevant act. `detail` holds no secrets and no content. */
export type AuditEntry = {
  orgId: string | null;
  actorId: string | null;
  action: string;
  target: string | null;
  detail?: Record<string, string | number | boolean | null>;
  requestId: string;
};

export type AuditRow = Required<Omit<AuditEntry, 'requestId'>> & { id: number; at: Date; requestId: string | null };

/** All that is given has to fit. `userId` is who acted or was acted on; of an action also its beginning does. */
export type AuditFilter = {
  orgId?: string | undefined;
  userId?: string | undefined;
  action?: string | undefined;
  since?: Date | undefined;
};

export function createAuditRepository(db: Db) {
  return {
    async insert(entry: AuditEntry): Promise<void> {
      await db('audit_log').insert({ ...entry, detail: JSON.stringify(entry.detail ?? {}) });
    },

    /** Newest first. */
    async list({ orgId, userId, action, since }: AuditFilter, limit: number): Promise<AuditRow[]> {
      return db('auditLog')
        .where((row) => {
          if (orgId !== undefined) row.where({ orgId });
          if (userId !== undefined) row.where((his) => his.where({ actorId: userId }).orWhere({ target: userId }));
          if (action !== undefined) row.whereRaw('starts_with(action, ?)', [action]);
          if (since !== undefined) row.where('at', '>=', since);
        })
        .orderBy('id', 'desc')
        .limit(limit)
        .select('id', 'at', 'orgId', 'actorId', 'action', 'target', 'detail', 'requestId');
    },
  };
}
