/** Dumps of the whole database, one file each. Errors have messages for the operator. */
export type DatabaseDumps = {
  /**
   * `snapshot` is the result of `pg_export_snapshot()` in an open transaction; an older `pg_dump` cannot read the
   * server.
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
 * Runs `work` under the database-wide maintenance lock. Throws at once, for the operator, if another process holds it.
 */
export type MaintenanceLock = <T>(work: () => Promise<T>) => Promise<T>;
