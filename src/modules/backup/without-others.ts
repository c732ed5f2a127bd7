import type { Db } from '#src/ports/database.ts';
import { type BackupRepository, createBackupRepository } from './backup.repository.ts';

/**
 * Does work while no other command backs this database up or restores it; however long it takes, and until this
 * process ends at the latest. Throws, in words for the operator, where another one does.
 * @param work gets a repository within the transaction that keeps the others out
 */
export function withoutOthers<T>(db: Db, work: (guard: BackupRepository) => Promise<T>): Promise<T> {
  return db.transaction(async (trx) => {
    const guard = createBackupRepository(trx);
    await guard.takeTime();
    if (!(await guard.lock())) throw new Error('Another command is backing up or restoring this database.');
    return work(guard);
  });
}
