import { z } from 'zod';
import type { JobKind, JobStatus } from '#src/contracts/jobs.ts';
import { idField } from '#src/http/request/fields.ts';
import type { StoredEvent } from '#src/ports/idempotency-store.ts';
import { isOver, type JobView } from './job-view.ts';
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
const statuses = ['queued', 'running', 'parked', 'succeeded', 'failed', 'cancelled'] as const satisfies JobStatus[];

export const jobFilters = {
  kind: z.enum(kinds).optional(),
  status: z.enum(statuses).optional(),
  error_code: z.string().min(1).max(100).optional(),
  document_id: idField.optional(),
  folder_id: idField.optional().describe('Jobs of the documents in this folder.'),
  connection_id: idField.optional(),
};

export function toJobFilters(fields: z.output<z.ZodObject<typeof jobFilters>>): JobFilters {
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
    folder_id: jobFilters.folder_id,
    connection_id: jobFilters.connection_id,
    error_code: jobFilters.error_code,
  })
  .refine((filters) => Object.keys(filters).length > 0, 'needs at least one filter')
  .meta({ minProperties: 1 });

export const retriedJobsSchema = z.strictObject({ count: z.int().describe('How many jobs were set going again.') });

export const jobSchema = z
  .strictObject({
    id: z.string().describe('A workflow id, with the name of a part after a dot where it names one.'),
    kind: z.enum(kinds),
    status: z.enum(statuses),
    stage: z.string().nullable().describe('The last stage that was begun.'),
    progress: z.strictObject({
      done: z.int(),
      total: z.int().nullable(),
      unit: z.string().nullable(),
    }),
    attempt: z.int().describe('How often it was started.'),
    last_error: z
      .strictObject({ code: z.string(), message: z.string() })
      .nullable()
      .describe(
        'Why it stopped; of a job that runs, why its present step is being tried again; of an import or a sync that succeeded, why some files failed.',
      ),
    document_id: z.string().nullable().describe('The document that it works on.'),
    chat_id: z.string().nullable().describe('The chat that it works on.'),
    started_at: z.iso.datetime().nullable(),
    finished_at: z.iso.datetime().nullable(),
    temporal_ui_url: z.url().nullable().describe('Where operators see the run; null without `TEMPORAL_UI_URL`.'),
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
      .describe('Of all of them: `total` is null until each knows its own, `unit` where they count nothing in common.'),
  })
  .meta({ id: 'JobSummary' });

export type JobDto = z.infer<typeof jobSchema>;

export function toJobDto(job: JobView): JobDto {
  return {
    id: job.id,
    kind: job.kind,
    status: job.status,
    stage: job.stage,
    progress: { done: job.progressDone, total: job.progressTotal, unit: job.progressUnit },
    attempt: job.attempt,
    last_error: job.errorCode === null ? null : { code: job.errorCode, message: job.errorMessage ?? '' },
    document_id: job.documentId,
    chat_id: job.chatId,
    started_at: job.startedAt?.toISOString() ?? null,
    finished_at: job.finishedAt?.toISOString() ?? null,
    temporal_ui_url: job.temporalUiUrl,
  };
}

/** `progress` while the job may still change, and at its end `done`, or `error` when it came to nothing. */
export function toJobEvent(job: JobView): StoredEvent {
  const data = toJobDto(job);
  if (job.status === 'succeeded') return { event: 'done', data };
  if (!isOver(job)) return { event: 'progress', data };
  const { code, message } = data.last_error ?? { code: job.status, message: 'The job was cancelled.' };
  return { event: 'error', data: { detail: message, code, job: data } };
}
