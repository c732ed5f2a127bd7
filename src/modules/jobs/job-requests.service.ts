import type { Knex } from 'knex';
import { anchorWordStages } from '#src/contracts/alignment.ts';
import { importStages } from '#src/contracts/connectors.ts';
import { deletionStages, erasureStages } from '#src/contracts/deletion.ts';
import { evaluationStages } from '#src/contracts/evaluation.ts';
import { exportStages } from '#src/contracts/exports.ts';
import { ingestionStages, previewStages } from '#src/contracts/ingestion.ts';
import { type JobKind, type JobStatus, unstoppableJobKinds } from '#src/contracts/jobs.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { jobIdOfWorkflowPart, parseJobId } from '#src/contracts/workflow-ids.ts';
import { mayPerformAction } from '#src/domain/access/policy.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { appError, type ErrorCode } from '#src/errors.ts';
import type { Orchestrator } from '#src/ports/orchestrator.ts';
import { createJobReadsRepository, type JobWithDocumentOrChat } from './job-reads.repository.ts';
import type { JobFilters, JobSummary, JobTotals, NamedJob } from './jobs.model.ts';
import { createJobsRepository } from './jobs.repository.ts';
import type { JobsService } from './jobs.service.ts';

const RETRY_BATCH = 1_000;

export type JobActionsService = ReturnType<typeof createJobActionsService>;

/**
 * Reads, retries, skips and cancels jobs for clients. Throws `job_not_found` for a job that the caller may not read.
 * Changing a job requires the right to change its document, chat or other target. If a client sends the id of a job's
 * part, the whole job is changed.
 */
export function createJobActionsService(deps: {
  db: Knex;
  orchestrator: Pick<Orchestrator, 'skipParked' | 'cancel' | 'uiUrl'>;
  jobs: Pick<JobsService, 'retry' | 'dispatch'>;
}) {
  const { orchestrator, jobs } = deps;
  const repository = createJobsRepository(deps.db);
  const reads = createJobReadsRepository(deps.db);

  async function get(actor: Actor, jobId: string): Promise<JobView> {
    const { workflowId, part } = parseJobId(jobId);
    const job = await reads.findReadable(actor, workflowId);
    const view = job === undefined ? undefined : toJobView(job, part, orchestrator.uiUrl(job.id));
    if (view === undefined) throw appError('job_not_found');
    return view;
  }

  async function findChangeable(actor: Actor, jobId: string): Promise<JobWithDocumentOrChat> {
    const { workflowId, part } = parseJobId(jobId);
    const job = await reads.findWithTarget(actor, workflowId);
    if (job === undefined || statusOfJobOrPart(job, part) === undefined) throw appError('job_not_found');
    if (!mayChange(actor, job))
      throw appError('forbidden', {
        detail: 'Changing a job requires write access to the document, chat or other data that it works on.',
      });
    return job;
  }

  return {
    get,

    async list(
      actor: Actor,
      filters: JobFilters,
      page: { limit: number; after: ListPosition | null },
    ): Promise<{ items: JobView[]; last: ListPosition | null }> {
      const { items, last } = await reads.listReadable(actor, filters, page);
      return { items: items.map((job) => ({ ...job, temporalUiUrl: orchestrator.uiUrl(job.id) })), last };
    },

    async summarize(actor: Actor, filters: JobFilters): Promise<JobSummary> {
      return summarizeJobTotals(await reads.countByStatus(actor, filters));
    },

    /** Queues a stopped job again. Also works while Temporal is down, because the sweeper starts the job later. */
    async retry(actor: Actor, jobId: string): Promise<JobView> {
      const job = await findChangeable(actor, jobId);
      const refusal = refusalToRetry(job);
      if (refusal !== undefined) throw appError(refusal);
      if (!(await jobs.retry(deps.db, job.id))) throw appError('job_open');
      await jobs.dispatch(job.id);
      return get(actor, jobId);
    },

    async retryMatching(actor: Actor, filters: JobFilters): Promise<number> {
      let count = 0;
      let after = '';
      for (;;) {
        const stopped = await reads.listStopped(actor, filters, { after, limit: RETRY_BATCH });
        const ids = stopped.filter((job) => mayChange(actor, job) && refusalToRetry(job) === undefined);
        count += await repository.queueAgain(
          ids.map((job) => job.id),
          { bulk: true, graceSeconds: 0 },
        );
        const last = stopped.at(-1);
        if (last === undefined || stopped.length < RETRY_BATCH) return count;
        after = last.id;
      }
    },

    async skip(actor: Actor, jobId: string): Promise<JobView> {
      const job = await findChangeable(actor, jobId);
      if (job.status !== 'parked') throw appError('job_not_parked');
      if (unstoppableJobKinds.includes(job.kind)) throw appError('deletion_is_final');
      if ((await orchestrator.skipParked(job.id)) !== 'moved') throw appError('job_not_parked');
      return get(actor, jobId);
    },

    async cancel(actor: Actor, jobId: string): Promise<JobView> {
      const job = await findChangeable(actor, jobId);
      if (job.finishedAt !== null) throw appError('job_finished');
      if (unstoppableJobKinds.includes(job.kind)) throw appError('deletion_is_final');
      // Starts a job that has no run yet: only a run can be cancelled, and the sweeper may be starting the job right
      // now.
      if (job.dispatchedAt === null) await jobs.dispatch(job.id);
      await orchestrator.cancel(job.id);
      await repository.recordCancellationRequest(job);
      // Closes the job if it could not be started, because its last run is still closing or Temporal refused the start.
      await repository.cancelUnstarted(job.id);
      return get(actor, jobId);
    },
  };
}

function mayChange(actor: Actor, job: JobWithDocumentOrChat): boolean {
  const createdBy = job.chatOwnerId ?? job.documentOwnerId ?? job.createdBy;
  return mayPerformAction(actor, 'job:write', { ...job, createdBy, acl: job.documentAcl ?? job.acl });
}

function refusalToRetry({ status, start, newestGeneration }: JobWithDocumentOrChat): ErrorCode | undefined {
  if (status === 'queued' || status === 'running') return 'job_open';
  if (status === 'succeeded') return 'job_finished';
  if (start.workflow !== 'ingestDocument') return undefined;
  if (newestGeneration === null) return 'document_deleted';
  return start.input.generation === newestGeneration ? undefined : 'superseded';
}

export type JobView = Pick<
  NamedJob,
  | 'id'
  | 'kind'
  | 'status'
  | 'stage'
  | 'progressDone'
  | 'progressTotal'
  | 'progressUnit'
  | 'expectedSeconds'
  | 'attempt'
  | 'errorCode'
  | 'errorMessage'
  | 'documentId'
  | 'documentName'
  | 'chatId'
  | 'chatTitle'
  | 'agentId'
  | 'agentName'
  | 'connectionId'
  | 'connectionName'
  | 'startedAt'
  | 'finishedAt'
> & {
  temporalUiUrl: string | null;
};

type JobState = Pick<JobView, 'kind' | 'status' | 'stage' | 'progressDone' | 'finishedAt'>;

/**
 * Stages of each job kind. A client can read a stage as a part of the job, as the job `<job id>.<stage>`. Null for a
 * kind whose parts are rounds of a chat.
 */
const stagesOf: { readonly [kind in JobKind]: readonly string[] | null } = {
  ingest: ingestionStages,
  delete: deletionStages,
  erase: erasureStages,
  anchors: anchorWordStages,
  preview: previewStages,
  reembed: [],
  evaluate: evaluationStages,
  compare: evaluationStages,
  import: importStages,
  sync: importStages,
  export: exportStages,
  alignment: null,
};

export function isJobFinished({ status }: Pick<JobView, 'status'>): boolean {
  return status === 'succeeded' || status === 'failed' || status === 'cancelled';
}

/** Shows a job, or the part whose status follows from the job's stage. Undefined if there is no such part. */
export function toJobView(
  job: Omit<JobView, 'temporalUiUrl'>,
  part: string | null,
  temporalUiUrl: string | null,
): JobView | undefined {
  const whole: JobView = { ...job, temporalUiUrl };
  if (part === null) return whole;
  const status = statusOfJobOrPart(job, part);
  if (status === undefined) return undefined;
  const showsError = status === 'running' || status === 'failed' || status === 'parked';
  return {
    ...whole,
    id: jobIdOfWorkflowPart(job.id, part),
    status,
    stage: part,
    ...(part !== job.stage && { progressDone: 0, progressTotal: null, progressUnit: null, expectedSeconds: null }),
    ...(!showsError && { errorCode: null, errorMessage: null }),
  };
}

function statusOfJobOrPart(job: JobState, part: string | null): JobStatus | undefined {
  if (part === null) return job.status;
  const stages = stagesOf[job.kind];
  return stages === null ? roundStatus(job, part) : stageStatus(job, stages, part);
}

function stageStatus(job: JobState, stages: readonly string[], stage: string): JobStatus | undefined {
  const position = stages.indexOf(stage);
  if (position < 0) return undefined;
  if (job.status === 'succeeded') return 'succeeded';
  const current = job.stage === null ? -1 : stages.indexOf(job.stage);
  if (position < current) return 'succeeded';
  if (position === current) return job.status;
  return job.finishedAt === null ? 'queued' : 'cancelled';
}

/** Derives the status of a round from its alignment job, whose progress is the number of the last scored round. */
function roundStatus(job: JobState, round: string): JobStatus | undefined {
  if (!/^[1-9]\d{0,8}$/.test(round)) return undefined;
  if (Number(round) <= job.progressDone) return 'succeeded';
  return job.status === 'succeeded' ? undefined : job.status;
}

export function summarizeJobTotals(groups: readonly JobTotals[]): JobSummary {
  const sum = (fact: (group: JobTotals) => number) => groups.reduce((total, group) => total + fact(group), 0);
  const units = new Set(groups.flatMap(({ unit }) => unit ?? []));
  const [unit = null] = units.size === 1 ? units : [];
  const counts: Record<JobStatus, number> = { queued: 0, running: 0, parked: 0, succeeded: 0, failed: 0, cancelled: 0 };
  for (const { status, jobs } of groups) counts[status] += jobs;
  const isKnown = unit !== null && sum(({ unknown }) => unknown) === 0;
  return {
    ...counts,
    total: sum(({ jobs }) => jobs),
    progress: {
      done: unit === null ? 0 : sum(({ done }) => done),
      total: isKnown ? sum(({ total }) => total) : null,
      unit,
    },
  };
}
