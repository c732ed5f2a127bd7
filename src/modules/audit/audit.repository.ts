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

export function createAuditRepository(db: Db) {
  return {
    async insert(entry: AuditEntry): Promise<void> {
      await db('audit_log').insert({ ...entry, detail: JSON.stringify(entry.detail ?? {}) });
    },
  };
}
