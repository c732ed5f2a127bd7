/** Dumps of the whole database, one file each. Errors have messages for the operator. */
export type DatabaseDumps = {
  /**
   * Writes one consistent snapshot of the database.
   * @param of.snapshot result of `pg_export_snapshot()` in a transaction that is still open
   * @param of.serverMajor version of the server; an older `pg_dump` cannot read it
   * @param of.withoutRowsOf tables that are written empty
   * @param of.without tables that are not written
   */
  write(of: {
    path: string;
    snapshot: string;
    serverMajor: number;
    withoutRowsOf: readonly string[];
    without: readonly string[];
  }): Promise<void>;
  /** Restores a dump into an empty database, completely or not at all. */
  restore(of: { path: string; writtenByMajor: number }): Promise<void>;
};

/**
 * Runs `work` while holding the database-wide maintenance lock.
 * @throws Error with a message for the operator, immediately, if another process holds the lock
 */
export type MaintenanceLock = <T>(work: () => Promise<T>) => Promise<T>;
