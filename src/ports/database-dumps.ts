/** Copies of the whole database as one file each. Failures are errors whose message is for the operator. */
export type DatabaseDumps = {
  /**
   * Writes what one moment of the database was.
   * @param of.snapshot what `pg_export_snapshot()` gave to a transaction that is still open
   * @param of.serverMajor the version of the server: an older program could not read it
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
  /** Makes everything that was written, in a database that has none of it: all of it or, when it fails, nothing. */
  restore(of: { path: string; writtenByMajor: number }): Promise<void>;
};
