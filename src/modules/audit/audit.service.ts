import type { Knex } from 'knex';
import type { Logger } from 'pino';
import {
  type AuditEntry,
  type AuditFilter,
  insertAuditEntry,
  type ListedAuditEntry,
  listAuditEntries,
} from './audit.model.ts';

export type AuditService = ReturnType<typeof createAuditService>;

/** Append-only audit log. Each action writes one row, in the transaction of the action, and one log line. */
export function createAuditService(deps: { db: Knex; logger: Logger }) {
  return {
    async record(trx: Knex, entry: AuditEntry): Promise<void> {
      await insertAuditEntry(trx, entry);
      deps.logger.info({ msg: 'audit', ...entry });
    },

    list(filter: AuditFilter, limit: number): Promise<ListedAuditEntry[]> {
      return listAuditEntries(deps.db, filter, limit);
    },
  };
}
