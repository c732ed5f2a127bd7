import { z } from 'zod';
import { ok } from '#src/http/answers.ts';
import { type Cursors, keysetQuery } from '#src/http/pagination.ts';
import { type Route, route } from '#src/http/route.ts';
import { jobFilters, jobListSchema, jobSchema, toJobDto } from './jobs.schema.ts';
import type { JobsService } from './jobs.service.ts';

export function jobsRoutes(jobs: Pick<JobsService, 'list' | 'get'>, cursors: Cursors): Route[] {
  return [
    route({
      method: 'get',
      path: '/jobs',
      operationId: 'listJobs',
      tag: 'jobs',
      summary: 'The jobs that you may read, newest first',
      access: 'user',
      query: z.strictObject({ ...keysetQuery, ...jobFilters }),
      responses: { 200: { description: 'A page of jobs', schema: jobListSchema } },
      handle: async ({ actor, query: { limit, cursor, ...fields } }) => {
        const list = { list: 'jobs', ...fields };
        const filters = {
          kind: fields.kind,
          status: fields.status,
          errorCode: fields.error_code,
          documentId: fields.document_id,
          folderId: fields.folder_id,
          connectionId: fields.connection_id,
        };
        const page = { limit, after: cursors.decode(cursor, list) };
        const { items, last } = await jobs.list(actor, filters, page);
        return ok({ items: items.map(toJobDto), next_cursor: cursors.encode(last, list) });
      },
    }),
    route({
      method: 'get',
      path: '/jobs/:job_id',
      operationId: 'getJob',
      tag: 'jobs',
      summary: 'One job, or one part of it',
      access: 'user',
      params: z.strictObject({ job_id: z.string().max(200, { error: 'job_not_found' }) }),
      responses: { 200: { description: 'The job', schema: jobSchema } },
      errors: ['job_not_found'],
      handle: async ({ actor, params: { job_id } }) => ok(toJobDto(await jobs.get(actor, job_id))),
    }),
  ];
}
