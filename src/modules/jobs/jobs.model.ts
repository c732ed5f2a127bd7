import { model } from '#src/adapters/postgres/base-model.ts';
import { integer, json, text, textArray, timestamp, uuid } from '#src/adapters/postgres/columns.ts';
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
  startId: uuid(),
}) {}

export type Job = {
  id: string;
  orgId: string;
  kind: JobKind;
  status: JobStatus;
  stage: string | null;
  progressDone: number;
  progressTotal: number | null;
  progressUnit: string | null;
  /** Counts the starts asked for, not the attempts of single steps. */
  attempt: number;
  /** Names the present attempt: its number may come again after a database was restored. */
  startId: string;
  errorCode: string | null;
  errorMessage: string | null;
  start: WorkflowStart;
  acl: string[];
  documentId: string | null;
  chatId: string | null;
  agentId: string | null;
  connectionId: string | null;
  requestId: string | null;
  createdBy: string;
  createdAt: Date;
  dispatchAfter: Date;
  dispatchedAt: Date | null;
  checkedAt: Date | null;
  cancelRequestedAt: Date | null;
  startedAt: Date | null;
  finishedAt: Date | null;
  updatedAt: Date;
};

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

/** How many jobs there are of each status, and how far they are altogether. */
export type JobSummary = Record<JobStatus, number> & {
  total: number;
  /** `unit` is null while none of them counts anything, and where they count different things. */
  progress: { done: number; total: number | null; unit: string | null };
};

export type EndedJob = Pick<Job, 'id' | 'status' | 'errorCode'>;

/** What jobs work on that are asked for. */
export type OpenRunsOf = { documentId: string; kind: JobKind } | { orgId: string; connectionId: string };
