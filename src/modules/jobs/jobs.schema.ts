import { z } from 'zod';
import type { JobKind } from '#src/contracts/jobs.ts';
import { appError } from '#src/errors.ts';
import { uuidField } from '#src/http/request/fields.ts';
import { jobStatusField, lastErrorField } from '#src/http/shared-schemas.ts';
import type { ServerSentEvent } from '#src/ports/idempotency-store.ts';
import type { JobFeedEvent } from './job-feed.service.ts';
import { isJobFinished, type JobView } from './job-requests.service.ts';
import type { JobFilters } from './jobs.model.ts';

const kinds = [
  'ingest',
  'alignment',
  'delete',
  'reembed',
  'erase',
  'anchors',
  'preview',
  'evaluate',
  'compare',
  'import',
  'sync',
  'export',
] as const satisfies JobKind[];
const kindField = z.enum(kinds).meta({ id: 'JobKind' });

export const jobFiltersQuery = {
  kind: kindField.optional(),
  status: jobStatusField.optional(),
  error_code: z.string().min(1).max(100).optional(),
  document_id: uuidField.optional(),
  folder_id: uuidField.optional().describe('Jobs of the documents in this folder.'),
  connection_id: uuidField.optional(),
};

export function toJobFilters(fields: z.output<z.ZodObject<typeof jobFiltersQuery>>): JobFilters {
  return {
    kind: fields.kind,
    status: fields.status,
    errorCode: fields.error_code,
    documentId: fields.document_id,
    folderId: fields.folder_id,
    connectionId: fields.connection_id,
  };
}

export const retryJobsSchema = z
  .strictObject({
    folder_id: jobFiltersQuery.folder_id,
    connection_id: jobFiltersQuery.connection_id,
    error_code: jobFiltersQuery.error_code,
  })
  .refine((filters) => Object.keys(filters).length > 0, 'needs at least one filter')
  .meta({ minProperties: 1 });

export const retriedJobsSchema = z.strictObject({ count: z.int().describe('Number of jobs that were queued again.') });

const name = z.string().nullable();

export const jobSchema = z
  .strictObject({
    id: z.string().describe('The workflow id; for a part of a job, followed by a dot and the name of the part.'),
    kind: kindField,
    status: jobStatusField,
    stage: z.string().nullable().describe('The last stage that was started.'),
    progress: z.strictObject({
      done: z.int(),
      total: z.int().nullable(),
      unit: z.string().nullable(),
    }),
    expected_seconds: z
      .int()
      .nullable()
      .describe('Time until the stage ends, at the rate of its current step; null while that is unknown.'),
    attempt: z.int().describe('How often the job was started.'),
    last_error: lastErrorField
      .nullable()
      .describe(
        'Why the job stopped; for a running job, why its current step is retried; for an import or sync that succeeded, why some files failed.',
      ),
    document_id: z.string().nullable().describe('The document that the job works on.'),
    document_name: name.describe('Null without a document, and once that is deleted.'),
    chat_id: z.string().nullable().describe('The chat that the job works on.'),
    chat_title: name,
    agent_id: z.string().nullable().describe('The agent that the job works on.'),
    agent_name: name,
    connection_id: z.string().nullable().describe('The connection that the job imports from.'),
    connection_name: name,
    started_at: z.iso.datetime().nullable(),
    finished_at: z.iso.datetime().nullable(),
    temporal_ui_url: z
      .url()
      .nullable()
      .describe('The run in the Temporal UI, for operators; null without `TEMPORAL_UI_URL`.'),
  })
  .meta({ id: 'Job' });

export const jobListSchema = z.strictObject({ items: z.array(jobSchema), next_cursor: z.string().nullable() });

const count = z.int().nonnegative();

export const jobSummarySchema = z
  .strictObject({
    queued: count,
    running: count,
    parked: count,
    succeeded: count,
    failed: count,
    cancelled: count,
    total: count,
    progress: z
      .strictObject({ done: count, total: count.nullable(), unit: z.string().nullable() })
      .describe(
        'Progress of all jobs together: `total` is null until it is known for each job, `unit` if the jobs count in different units.',
      ),
  })
  .meta({ id: 'JobSummary' });

const jobErrorEvent = z
  .strictObject({
    type: z.literal('error'),
    detail: z.string(),
    code: z.string().exactOptional(),
    job: jobSchema.exactOptional(),
  })
  .meta({ id: 'JobErrorEvent' });

/** Events of `GET /jobs/{job_id}/events`. */
export const jobEventSchema = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('progress'), ...jobSchema.shape }).meta({ id: 'JobProgressEvent' }),
    z.strictObject({ type: z.literal('done'), ...jobSchema.shape }).meta({ id: 'JobDoneEvent' }),
    jobErrorEvent,
  ])
  .meta({ id: 'JobEvent' });

/** Events of `GET /jobs/events`. */
export const jobFeedEventSchema = z
  .discriminatedUnion('type', [
    z.strictObject({ type: z.literal('job'), ...jobSchema.shape }).meta({ id: 'JobChangeEvent' }),
    z.strictObject({ type: z.literal('ready') }).meta({ id: 'JobFeedReadyEvent' }),
    jobErrorEvent,
  ])
  .meta({ id: 'JobFeedEvent' });

export type JobDto = z.infer<typeof jobSchema>;

export function toJobDto(job: JobView): JobDto {
  return {
    id: job.id,
    kind: job.kind,
    status: job.status,
    stage: job.stage,
    progress: { done: job.progressDone, total: job.progressTotal, unit: job.progressUnit },
    expected_seconds: job.expectedSeconds,
    attempt: job.attempt,
    last_error: job.errorCode === null ? null : { code: job.errorCode, message: job.errorMessage ?? '' },
    document_id: job.documentId,
    document_name: job.documentName,
    chat_id: job.chatId,
    chat_title: job.chatTitle,
    agent_id: job.agentId,
    agent_name: job.agentName,
    connection_id: job.connectionId,
    connection_name: job.connectionName,
    started_at: job.startedAt?.toISOString() ?? null,
    finished_at: job.finishedAt?.toISOString() ?? null,
    temporal_ui_url: job.temporalUiUrl,
  };
}

/** Event `job` for a job that is open or has changed; `ready` after the jobs that a stream starts with. */
export function toJobFeedEvent({ position, job }: JobFeedEvent): ServerSentEvent {
  const id = String(position);
  return job === null ? { id, event: 'ready', data: {} } : { id, event: 'job', data: toJobDto(job) };
}

/** Parses a `Last-Event-ID` of the stream of all jobs. Throws `malformed_request`. */
export function toJobFeedPosition(lastEventId: string | null): number | null {
  if (lastEventId === null) return null;
  if (/^\d{1,16}$/.test(lastEventId)) return Number(lastEventId);
  throw appError('malformed_request', { detail: '`Last-Event-ID` must be the id of an event of this stream.' });
}

/** Event `progress` while the job is open; at its end `done`, or `error` if it failed or was cancelled. */
export function toJobEvent(job: JobView): ServerSentEvent {
  const data = toJobDto(job);
  if (job.status === 'succeeded') return { event: 'done', data };
  if (!isJobFinished(job)) return { event: 'progress', data };
  const { code, message } = data.last_error ?? { code: job.status, message: 'The job was cancelled.' };
  return { event: 'error', data: { detail: message, code, job: data } };
}
