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
  /** Counts the starts asked for, not the attempts of single steps. */
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
  /** Names the present attempt: its number may come again after a database was restored. */
  startId: uuid(),
}) {}

export type Job = Row<typeof JobModel>;

/** What is read again and again of a job that clients watch. */
export const watchedJob = pick(
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
export type WatchedJob = Row<typeof watchedJob>;

export type NewJob = Pick<Job, 'id' | 'orgId' | 'kind' | 'start' | 'createdBy' | 'requestId'> & {
  acl: readonly string[];
  documentId?: string;
  connectionId?: string;
  chatId?: string;
  agentId?: string;
};

/** `progress` counts units of the stage; a `total` of null means that it is not known. */
export type JobProgress = { done: number; total: number | null; unit: string };

export type JobError = { code: string; message: string };

/** What a step says about its job. What is left out stays as it is. */
export type JobChange = { status?: JobStatus; stage?: string; progress?: JobProgress; error?: JobError };

export type JobFilters = {
  kind?: JobKind | undefined;
  status?: JobStatus | undefined;
  errorCode?: string | undefined;
  documentId?: string | undefined;
  connectionId?: string | undefined;
  /** Of a document that is linked in this folder. */
  folderId?: string | undefined;
};

/** Jobs of one status that count in one unit. `total` sums up what is known; `unknown` are open and have yet to tell. */
export const jobGroup = shape({
  ...pick(JobModel, 'status').columns,
  unit: text().nullable(),
  jobs: bigint(),
  done: bigint(),
  total: bigint(),
  unknown: bigint(),
});
export type JobGroup = Row<typeof jobGroup>;

/** How many jobs there are of each status, and how far they are altogether. */
export type JobSummary = Record<JobStatus, number> & {
  total: number;
  /** `unit` is null while none of them counts anything, and where they count different things. */
  progress: { done: number; total: number | null; unit: string | null };
};

export type EndedJob = Pick<Job, 'id' | 'status' | 'errorCode'>;

/** What jobs work on that are asked for. */
export type OpenRunsOf = { documentId: string; kind: JobKind } | { orgId: string; connectionId: string };
