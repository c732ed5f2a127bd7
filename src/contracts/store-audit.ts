import type { AuditPass, AuditProgress } from '#src/domain/audit-report.ts';

/** The argument of `auditStores`. `progress` is there when a run goes on in a new history. */
export type AuditStoresInput = {
  repair: boolean;
  /** Deletes however many orphans there are: an operator has looked at them. */
  force?: boolean;
  /** How long something may be on its way before it is an orphan for want of an owner. */
  graceSeconds: number;
  progress?: AuditProgress;
};

/** `after` is the `next` of the page before. */
export type AuditPageInput = {
  pass: AuditPass;
  after: string | null;
  repair: boolean;
  force?: boolean;
  graceSeconds: number;
};

/** Uploads and deletions that are under way are over within this. */
export const auditGraceSeconds = 3_600;
