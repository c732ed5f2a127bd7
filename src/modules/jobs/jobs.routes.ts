import { z } from 'zod';
import { type CursorCodec, cursorPaginationQuery } from '#src/http/request/pagination.ts';
import { eventStreamAnswer, jsonAnswer, okAnswer, type ServerSentEventSink } from '#src/http/response/answers.ts';
import { defineRoute, eventStreamResponse, type HttpRoute } from '#src/http/routing/route.ts';
import type { JobFeedService } from './job-feed.service.ts';
import type { JobActionsService } from './job-requests.service.ts';
import type { JobWatchService } from './job-watch.service.ts';
import {
  jobEventSchema,
  jobFeedEventSchema,
  jobFiltersQuery,
  jobListSchema,
  jobSchema,
  jobSummarySchema,
  retriedJobsSchema,
  retryJobsSchema,
  toJobDto,
  toJobEvent,
  toJobFeedEvent,
  toJobFeedPosition,
  toJobFilters,
} from './jobs.schema.ts';

const jobParams = z.strictObject({ job_id: z.string().regex(/^[\w.~-]{1,200}$/, { error: 'job_not_found' }) });

export function jobsRoutes(
  jobs: JobActionsService,
  { watch }: JobWatchService,
  { watchAll }: JobFeedService,
  cursors: CursorCodec,
): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/jobs',
      operationId: 'listJobs',
      tag: 'jobs',
      summary: 'List the jobs that you may read, newest first',
      access: 'user',
      query: z.strictObject({ ...cursorPaginationQuery, ...jobFiltersQuery }),
      responses: { 200: { description: 'A page of jobs', schema: jobListSchema } },
      handle: async ({ actor, query: { limit, cursor, ...fields } }) => {
        const list = { list: 'jobs', ...fields };
        const page = { limit, after: cursors.decode(cursor, list) };
        const { items, last } = await jobs.list(actor, toJobFilters(fields), page);
        return okAnswer({ items: items.map(toJobDto), next_cursor: cursors.encode(last, list) });
      },
    }),
    defineRoute({
      method: 'get',
      path: '/jobs/summary',
      operationId: 'summarizeJobs',
      tag: 'jobs',
      summary: 'Count the jobs that you may read by status, with their total progress',
      access: 'user',
      query: z.strictObject(jobFiltersQuery),
      responses: { 200: { description: 'The counts', schema: jobSummarySchema } },
      handle: async ({ actor, query }) => okAnswer(await jobs.summarize(actor, toJobFilters(query))),
    }),
    defineRoute({
      method: 'get',
      path: '/jobs/events',
      operationId: 'watchJobs',
      tag: 'jobs',
      summary: 'Stream all jobs that you may read: `job` for each open one, `ready`, then `job` at each change',
      access: 'user',
      resumable: true,
      responses: { 200: eventStreamResponse(jobFeedEventSchema) },
      errors: ['malformed_request'],
      handle: ({ actor, lastEventId }) => {
        const after = toJobFeedPosition(lastEventId);
        const sendChanges = async (events: ServerSentEventSink) => {
          for await (const event of watchAll(actor, after, events.closed)) await events.send(toJobFeedEvent(event));
        };
        return eventStreamAnswer(sendChanges, { isWatch: true });
      },
    }),
    defineRoute({
      method: 'get',
      path: '/jobs/:job_id',
      operationId: 'getJob',
      tag: 'jobs',
      summary: 'Get a job, or one part of it',
      access: 'job:read',
      params: jobParams,
      responses: { 200: { description: 'The job', schema: jobSchema } },
      errors: ['job_not_found'],
      handle: async ({ actor, params: { job_id } }) => okAnswer(toJobDto(await jobs.get(actor, job_id))),
    }),
    defineRoute({
      method: 'get',
      path: '/jobs/:job_id/events',
      operationId: 'watchJob',
      tag: 'jobs',
      summary: 'Stream a job: `progress` now and at each change, `done` or `error` at its end',
      access: 'job:read',
      params: jobParams,
      responses: { 200: eventStreamResponse(jobEventSchema) },
      errors: ['job_not_found'],
      handle: async ({ actor, params: { job_id } }) => {
        const job = await jobs.get(actor, job_id);
        const sendChanges = async (events: ServerSentEventSink) => {
          for await (const change of watch(actor, job, events.closed)) await events.send(toJobEvent(change));
        };
        return eventStreamAnswer(sendChanges, { isWatch: true });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/jobs/retry',
      operationId: 'retryJobs',
      tag: 'jobs',
      summary: 'Retry, in bulk, the failed, cancelled and parked jobs that match all filters and that you may change',
      access: 'user',
      body: retryJobsSchema,
      responses: { 202: { description: 'The jobs are queued', schema: retriedJobsSchema } },
      handle: async ({ actor, body: { folder_id, connection_id, error_code } }) => {
        const filters = { folderId: folder_id, connectionId: connection_id, errorCode: error_code };
        return jsonAnswer(202, { count: await jobs.retryMatching(actor, filters) });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/jobs/:job_id/retry',
      operationId: 'retryJob',
      tag: 'jobs',
      summary: 'Retry a failed, cancelled or parked job; completed work is not repeated',
      access: 'job:write',
      params: jobParams,
      responses: { 202: { description: 'The job as it is now', schema: jobSchema } },
      errors: ['forbidden', 'job_not_found', 'job_open', 'job_finished', 'superseded', 'document_deleted'],
      handle: async ({ actor, params: { job_id } }) => jsonAnswer(202, toJobDto(await jobs.retry(actor, job_id))),
    }),
    defineRoute({
      method: 'post',
      path: '/jobs/:job_id/skip',
      operationId: 'skipJob',
      tag: 'jobs',
      summary: 'End a parked job as failed, with the code `skipped`',
      access: 'job:write',
      params: jobParams,
      responses: { 202: { description: 'The job as it is now', schema: jobSchema } },
      errors: ['forbidden', 'job_not_found', 'job_not_parked', 'deletion_is_final'],
      handle: async ({ actor, params: { job_id } }) => jsonAnswer(202, toJobDto(await jobs.skip(actor, job_id))),
    }),
    defineRoute({
      method: 'post',
      path: '/jobs/:job_id/cancel',
      operationId: 'cancelJob',
      tag: 'jobs',
      summary: 'Cancel a job that is not over',
      access: 'job:write',
      params: jobParams,
      responses: { 202: { description: 'The job as it is now', schema: jobSchema } },
      errors: ['forbidden', 'job_not_found', 'job_finished', 'deletion_is_final'],
      handle: async ({ actor, params: { job_id } }) => jsonAnswer(202, toJobDto(await jobs.cancel(actor, job_id))),
    }),
  ];
}
