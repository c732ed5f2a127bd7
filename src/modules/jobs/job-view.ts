import { anchoringStages } from '#src/contracts/alignment.ts';
import { importStages } from '#src/contracts/connectors.ts';
import { deletionStages, erasureStages } from '#src/contracts/deletion.ts';
import { evaluationStages } from '#src/contracts/evaluation.ts';
import { exportStages } from '#src/contracts/exports.ts';
import { ingestionStages, previewStages } from '#src/contracts/ingestion.ts';
import type { JobKind, JobStatus } from '#src/contracts/jobs.ts';
import { jobPartId } from '#src/contracts/workflow-ids.ts';
import type { Job } from './jobs.model.ts';

/** A job as clients see it, or one part of it under the part's own id. */
export type JobView = Pick<
  Job,
  | 'id'
  | 'kind'
  | 'status'
  | 'stage'
  | 'progressDone'
  | 'progressTotal'
  | 'progressUnit'
  | 'attempt'
  | 'errorCode'
  | 'errorMessage'
  | 'documentId'
  | 'chatId'
  | 'startedAt'
  | 'finishedAt'
> & {
  /** Where operators see the run; null when the deployment does not say. */
  temporalUiUrl: string | null;
};

type JobState = Omit<JobView, 'temporalUiUrl'>;

/** The parts of a job that have ids of their own: stages in their order, or null where it goes on by rounds. */
const stagesOf: { readonly [kind in JobKind]: readonly string[] | null } = {
  ingest: ingestionStages,
  delete: deletionStages,
  erase: erasureStages,
  anchors: anchoringStages,
  preview: previewStages,
  reembed: [],
  evaluate: evaluationStages,
  compare: evaluationStages,
  import: importStages,
  sync: importStages,
  export: exportStages,
  alignment: null,
};

export function isOver({ status }: Pick<JobView, 'status'>): boolean {
  return status === 'succeeded' || status === 'failed' || status === 'cancelled';
}

/** Undefined when the job has no such part. A part's status follows from where the job stands. */
export function viewOf(job: JobState, part: string | null, temporalUiUrl: string | null): JobView | undefined {
  const whole: JobView = { ...job, temporalUiUrl };
  if (part === null) return whole;
  const stages = stagesOf[job.kind];
  const status = stages === null ? roundStatus(job, part) : stageStatus(job, stages, part);
  if (status === undefined) return undefined;
  const showsFault = status === 'running' || status === 'failed' || status === 'parked';
  return {
    ...whole,
    id: jobPartId(job.id, part),
    status,
    stage: part,
    ...(part !== job.stage && { progressDone: 0, progressTotal: null, progressUnit: null }),
    ...(!showsFault && { errorCode: null, errorMessage: null }),
  };
}

/** Parts before the job's stage are done; those after it wait, or will not come any more when the job is over. */
function stageStatus(job: JobState, stages: readonly string[], stage: string): JobStatus | undefined {
  const position = stages.indexOf(stage);
  if (position < 0) return undefined;
  if (job.status === 'succeeded') return 'succeeded';
  const current = job.stage === null ? -1 : stages.indexOf(job.stage);
  if (position < current) return 'succeeded';
  if (position === current) return job.status;
  return job.finishedAt === null ? 'queued' : 'cancelled';
}

/** An alignment job's progress is the number of the last round that it scored; it succeeds once no round waits. */
function roundStatus(job: JobState, round: string): JobStatus | undefined {
  if (!/^[1-9]\d{0,8}$/.test(round)) return undefined;
  if (Number(round) <= job.progressDone) return 'succeeded';
  return job.status === 'succeeded' ? undefined : job.status;
}
