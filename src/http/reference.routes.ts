import { z } from 'zod';
import { appError, isErrorCode, listErrors } from '#src/errors.ts';
import { ok } from './answers.ts';
import { type Route, route } from './route.ts';

const problemTypeSchema = z
  .strictObject({
    code: z.string(),
    status: z.int(),
    title: z.string(),
    class: z.enum(['permanent', 'transient', 'operator']).describe('What a workflow does with it: fail, repeat, park.'),
  })
  .meta({ id: 'ProblemType' });

const serviceSchema = z.strictObject({ title: z.string(), docs: z.string(), openapi: z.string(), health: z.string() });

/** Where a person comes who opens the address of the service, or the `type` of a problem. */
export function referenceRoutes({ title, basePath }: { title: string; basePath: string }): Route[] {
  return [
    route({
      method: 'get',
      path: '/',
      operationId: 'getService',
      tag: 'health',
      summary: 'What this is, and where it is described',
      access: 'public',
      responses: { 200: { description: 'Addresses', schema: serviceSchema } },
      handle: () =>
        ok({
          title,
          docs: `${basePath}/docs`,
          openapi: `${basePath}/openapi.json`,
          health: `${basePath}/healthz`,
        }),
    }),
    route({
      method: 'get',
      path: '/errors/:code',
      operationId: 'getProblemType',
      tag: 'health',
      summary: 'What a problem means: the address is its `type`',
      access: 'public',
      params: z.strictObject({ code: z.string().refine(isErrorCode, { error: 'not_found' }) }),
      responses: { 200: { description: 'The entry of the catalogue', schema: problemTypeSchema } },
      errors: ['not_found'],
      handle: ({ params }) => {
        const entry = listErrors().find(({ code }) => code === params.code);
        if (entry === undefined) throw appError('not_found');
        return ok(entry);
      },
    }),
  ];
}
