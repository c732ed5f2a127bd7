/** Makes and restores dumps of the whole database, one file each. Error messages are written for the operator. */
export type DatabaseDumps = {
  /**
   * Dumps the database as seen by `snapshot`, the result of `pg_export_snapshot()` in an open transaction. Throws if
   * `pg_dump` is older than the server.
   */
  write(of: {
    path: string;
    snapshot: string;
    serverMajor: number;
    withoutRowsOf: readonly string[];
    without: readonly string[];
  }): Promise<void>;
  /** Restores a dump into an empty database, in one transaction. */
  restore(of: { path: string; writtenByMajor: number }): Promise<void>;
};

/**
 * Runs `work` while holding the database-wide maintenance lock. If another process holds the lock, throws at once with
 * a message for the operator.
 */
export type MaintenanceLock = <T>(work: () => Promise<T>) => Promise<T>;
