import type { Knex } from 'knex';
import type { Logger } from 'pino';
import type { AuditEntry, AuditRow } from './audit.model.ts';
import { type AuditFilter, createAuditRepository } from './audit.repository.ts';

export type AuditService = ReturnType<typeof createAuditService>;

/** The append-only record of security-relevant acts: a row of the transaction that does the act, and a line in the log. */
export function createAuditService(deps: { db: Knex; logger: Logger }) {
  return {
    async record(trx: Knex, entry: AuditEntry): Promise<void> {
      await createAuditRepository(trx).insert(entry);
      deps.logger.info({ msg: 'audit', ...entry });
    },

    /** The newest that fit, newest first. */
    list(filter: AuditFilter, limit: number): Promise<AuditRow[]> {
      return createAuditRepository(deps.db).list(filter, limit);
    },
  };
}
