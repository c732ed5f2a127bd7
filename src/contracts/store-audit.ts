import type { AuditPass, AuditProgress } from '#src/domain/documents/audit-report.ts';

/** The argument of `auditStores`. `progress` is set when a run continues as new. */
export type AuditStoresInput = {
  repair: boolean;
  /** Deletes any number of orphans; set by an operator after checking them. */
  force?: boolean;
  /** Minimum age of an orphan; younger objects may belong to a change in progress. */
  graceSeconds: number;
  progress?: AuditProgress;
};

/** `after` is the `next` of the previous page. */
export type AuditPageInput = {
  pass: AuditPass;
  after: string | null;
  repair: boolean;
  force?: boolean;
  graceSeconds: number;
};

/** Uploads and deletions are finished within this time. */
export const auditGraceSeconds = 3_600;
