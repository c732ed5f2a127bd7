import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  bigintColumn,
  defineRowShape,
  integerColumn,
  jsonColumn,
  pickColumns,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { JobKind, JobStatus, WorkflowToStart } from '#src/contracts/jobs.ts';

export class JobModel extends tableModel('jobs', {
  id: textColumn(),
  orgId: uuidColumn(),
  kind: textColumn<JobKind>(),
  status: textColumn<JobStatus>(),
  stage: textColumn().nullable(),
  progressDone: integerColumn(),
  progressTotal: integerColumn().nullable(),
  progressUnit: textColumn().nullable(),
  /** Time until the stage ends, as estimated at the last progress. */
  expectedSeconds: integerColumn().nullable(),
  /** How often a start of the job was requested. Retries of its activities do not count. */
  attempt: integerColumn(),
  errorCode: textColumn().nullable(),
  errorMessage: textColumn().nullable(),
  start: jsonColumn<WorkflowToStart>(),
  acl: textArrayColumn(),
  documentId: uuidColumn().nullable(),
  chatId: uuidColumn().nullable(),
  agentId: uuidColumn().nullable(),
  connectionId: uuidColumn().nullable(),
  requestId: textColumn().nullable(),
  createdBy: uuidColumn(),
  createdAt: timestampColumn(),
  dispatchAfter: timestampColumn(),
  dispatchedAt: timestampColumn().nullable(),
  checkedAt: timestampColumn().nullable(),
  startedAt: timestampColumn().nullable(),
  finishedAt: timestampColumn().nullable(),
  updatedAt: timestampColumn(),
  cancelRequestedAt: timestampColumn().nullable(),
  /**
   * Identifies the current attempt of a job. After a restore of an older database the attempt's number may repeat, but
   * never this id.
   */
  startId: uuidColumn(),
}) {}

export type Job = SqlRow<typeof JobModel>;

/** Names of what a job is about; null for what is deleted. */
export const jobNamesRowShape = defineRowShape({
  documentName: textColumn().nullable(),
  chatTitle: textColumn().nullable(),
  agentName: textColumn().nullable(),
  connectionName: textColumn().nullable(),
});

export const namedJobRowShape = defineRowShape({ ...JobModel.columns, ...jobNamesRowShape.columns });
export type NamedJob = SqlRow<typeof namedJobRowShape>;

export const watchedJobColumns = pickColumns(
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
  'expectedSeconds',
  'attempt',
  'errorCode',
  'errorMessage',
  'documentId',
  'chatId',
  'agentId',
  'connectionId',
  'startedAt',
  'finishedAt',
).columns;
export const watchedJobRowShape = defineRowShape({ ...watchedJobColumns, ...jobNamesRowShape.columns });
export type WatchedJob = SqlRow<typeof watchedJobRowShape>;

/** A job with the time of its last change, in microseconds since 1970. */
export const changedJobRowShape = defineRowShape({ ...watchedJobRowShape.columns, changedUs: bigintColumn() });
export type ChangedJob = SqlRow<typeof changedJobRowShape>;

/** A position in the jobs in the order of their last changes. */
export type JobChangePosition = Pick<ChangedJob, 'changedUs' | 'id'>;

export type NewJob = Pick<Job, 'id' | 'orgId' | 'kind' | 'start' | 'createdBy' | 'requestId'> & {
  acl: readonly string[];
  documentId?: string;
  connectionId?: string;
  chatId?: string;
  agentId?: string;
};

/**
 * Progress of a job within its current stage; `total` is null while unknown. Without `expectedSeconds` the last estimate
 * stays.
 */
type JobProgress = { done: number; total: number | null; unit: string; expectedSeconds?: number | undefined };

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
export const jobTotalsRowShape = defineRowShape({
  ...pickColumns(JobModel, 'status').columns,
  unit: textColumn().nullable(),
  jobs: bigintColumn(),
  done: bigintColumn(),
  total: bigintColumn(),
  unknown: bigintColumn(),
});
export type JobTotals = SqlRow<typeof jobTotalsRowShape>;

export type JobSummary = Record<JobStatus, number> & {
  total: number;
  progress: { done: number; total: number | null; unit: string | null };
};

export type EndedJob = Pick<Job, 'id' | 'status' | 'errorCode'>;

export type UnfinishedJobsFilter = { documentId: string; kind: JobKind } | { orgId: string; connectionId: string };
