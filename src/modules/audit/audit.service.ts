import type { Logger } from 'pino';
import type { Db } from '#src/ports/database.ts';
import { type AuditEntry, createAuditRepository } from './audit.repository.ts';

export type AuditService = ReturnType<typeof createAuditService>;

/** The append-only record of security-relevant acts: a row of the transaction that does the act, and a line in the log. */
export function createAuditService(deps: { logger: Logger }) {
  return {
    async record(trx: Db, entry: AuditEntry): Promise<void> {
      await createAuditRepository(trx).insert(entry);
      deps.logger.info({ msg: 'audit', ...entry });
    },
  };
}
