/** Makes and restores dumps of the whole database, one file each. Error messages are written for the operator. */
export type DatabaseDumps = {
  /** Dumps the database as of `snapshot` (`pg_export_snapshot()`). Throws if `pg_dump` is older than the server. */
  write(of: {
    path: string;
    snapshot: string;
    serverMajor: number;
    withoutRowsOf: readonly string[];
    without: readonly string[];
  }): Promise<void>;
  restore(of: { path: string; writtenByMajor: number }): Promise<void>;
};

/** Runs `work` under the database-wide maintenance lock. Throws at once if another process holds it. */
export type MaintenanceLock = <T>(work: () => Promise<T>) => Promise<T>;
