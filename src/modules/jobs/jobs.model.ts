import { model } from '#src/adapters/postgres/base-model.ts';
import {
  bigint,
  integer,
  json,
  pick,
  type Row,
  shape,
  text,
  textArray,
  timestamp,
  uuid,
} from '#src/adapters/postgres/shapes.ts';
import type { JobKind, JobStatus, WorkflowStart } from '#src/contracts/jobs.ts';

export class JobModel extends model('jobs', {
  id: text(),
  orgId: uuid(),
  kind: text<JobKind>(),
  status: text<JobStatus>(),
  stage: text().nullable(),
  progressDone: integer(),
  progressTotal: integer().nullable(),
  progressUnit: text().nullable(),
  /** How often a start of the job was requested. Retries of its activities do not count. */
  attempt: integer(),
  errorCode: text().nullable(),
  errorMessage: text().nullable(),
  start: json<WorkflowStart>(),
  acl: textArray(),
  documentId: uuid().nullable(),
  chatId: uuid().nullable(),
  agentId: uuid().nullable(),
  connectionId: uuid().nullable(),
  requestId: text().nullable(),
  createdBy: uuid(),
  createdAt: timestamp(),
  dispatchAfter: timestamp(),
  dispatchedAt: timestamp().nullable(),
  checkedAt: timestamp().nullable(),
  startedAt: timestamp().nullable(),
  finishedAt: timestamp().nullable(),
  updatedAt: timestamp(),
  cancelRequestedAt: timestamp().nullable(),
  /**
   * Identifies the current attempt of a job. Its number does not suffice, because it may repeat after a restore of an
   * older database.
   */
  startId: uuid(),
}) {}

export type Job = Row<typeof JobModel>;

export const watchedJobShape = pick(
  JobModel,
  'id',
  'orgId',
  'acl',
  'kind',
  'status',
  'stage',
  'progressDone',
  'progressTotal',
  'progressUnit',
  'attempt',
  'errorCode',
  'errorMessage',
  'documentId',
  'chatId',
  'startedAt',
  'finishedAt',
);
export type WatchedJob = Row<typeof watchedJobShape>;

export type NewJob = Pick<Job, 'id' | 'orgId' | 'kind' | 'start' | 'createdBy' | 'requestId'> & {
  acl: readonly string[];
  documentId?: string;
  connectionId?: string;
  chatId?: string;
  agentId?: string;
};

/** Progress of a job within its current stage; `total` is null while unknown. */
type JobProgress = { done: number; total: number | null; unit: string };

export type JobError = { code: string; message: string };

/** A change of a job that a step of its workflow reports. Omitted fields stay unchanged. */
export type JobUpdate = { status?: JobStatus; stage?: string; progress?: JobProgress; error?: JobError };

export type JobFilters = {
  kind?: JobKind | undefined;
  status?: JobStatus | undefined;
  errorCode?: string | undefined;
  documentId?: string | undefined;
  connectionId?: string | undefined;
  folderId?: string | undefined;
};

/** Totals over jobs with the same status and progress unit. `unknown` counts open jobs without a known total. */
export const jobTotalsShape = shape({
  ...pick(JobModel, 'status').columns,
  unit: text().nullable(),
  jobs: bigint(),
  done: bigint(),
  total: bigint(),
  unknown: bigint(),
});
export type JobTotals = Row<typeof jobTotalsShape>;

export type JobSummary = Record<JobStatus, number> & {
  total: number;
  /** Progress of all jobs together. `unit` is null if no job has a unit or the units differ. */
  progress: { done: number; total: number | null; unit: string | null };
};

export type EndedJob = Pick<Job, 'id' | 'status' | 'errorCode'>;

export type OpenJobsFilter = { documentId: string; kind: JobKind } | { orgId: string; connectionId: string };
