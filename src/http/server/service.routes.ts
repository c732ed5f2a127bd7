import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { appError, isErrorCode, listErrors } from '#src/errors.ts';
import { answer, ok } from '../response/answers.ts';
import { type Route, route } from '../routing/route.ts';
import type { OpenApiDocument } from './openapi.ts';

const checkTimeoutMs = 3_000;
/** Results are cached, because the route is public and its checks cost a query and a Temporal call per task queue. */
const checkMaxAgeMs = 1_000;

export const healthSchema = z.strictObject({ status: z.literal('ok') }).meta({ id: 'Health' });

export const readinessSchema = z
  .strictObject({
    status: z.enum(['ready', 'not_ready']),
    checks: z.record(z.string(), z.boolean()).describe('Each thing that the service needs, and whether it is there'),
  })
  .meta({ id: 'Readiness' });

/** Liveness and readiness. Each check resolves with whether its dependency is available. */
export function healthRoutes(deps: {
  checks: Record<string, () => Promise<boolean>>;
  isLeaving: () => boolean;
}): Route[] {
  const names = Object.keys(deps.checks);
  const readinessQuery = z.strictObject({
    exclude: z
      .enum(names)
      .optional()
      .describe('A check that is left out, such as `workers` for a load balancer: much is served without them'),
  });
  const cache = new LRUCache<string, boolean, () => Promise<boolean>>({
    max: names.length,
    ttl: checkMaxAgeMs,
    fetchMethod: (_name, _stale, { context: check }) => isAvailable(check),
  });

  async function checked(exclude: string | undefined): Promise<Record<string, boolean>> {
    const asked = Object.entries(deps.checks).filter(([name]) => name !== exclude);
    const results = asked.map(async ([name, check]) => [name, (await cache.fetch(name, { context: check })) === true]);
    return Object.fromEntries(await Promise.all(results));
  }

  return [
    route({
      method: 'get',
      path: '/healthz',
      operationId: 'getHealth',
      tag: 'health',
      summary: 'Whether the process is alive',
      access: 'public',
      responses: { 200: { description: 'It is', schema: healthSchema } },
      handle: () => ok({ status: 'ok' as const }, { 'Cache-Control': 'no-store' }),
    }),
    route({
      method: 'get',
      path: '/readyz',
      operationId: 'getReadiness',
      tag: 'health',
      summary: 'Whether the service can do its work: database, workers, not shutting down',
      access: 'public',
      query: readinessQuery,
      responses: {
        200: { description: 'It can', schema: readinessSchema },
        503: { description: 'It cannot', schema: readinessSchema },
      },
      handle: async ({ query: { exclude } }) => {
        // Answers immediately during shutdown, so that load balancers notice it in time.
        const found = deps.isLeaving() ? {} : await checked(exclude);
        const checks = { ...found, serving: !deps.isLeaving() };
        return Object.values(checks).every(Boolean)
          ? ok({ status: 'ready' as const, checks }, { 'Cache-Control': 'no-store' })
          : answer(503, { status: 'not_ready' as const, checks });
      },
    }),
  ];
}

async function isAvailable(check: () => Promise<boolean>): Promise<boolean> {
  const { promise: tooLate, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(resolve, checkTimeoutMs, false);
  try {
    return await Promise.race([check(), tooLate]);
  } catch {
    return false;
  } finally {
    clearTimeout(timer);
  }
}

const problemTypeSchema = z
  .strictObject({
    code: z.string(),
    status: z.int(),
    title: z.string(),
    class: z.enum(['permanent', 'transient', 'operator']).describe('What a workflow does with it: fail, repeat, park.'),
  })
  .meta({ id: 'ProblemType' });

const serviceSchema = z.strictObject({ title: z.string(), docs: z.string(), openapi: z.string(), health: z.string() });

/** Entry page of the service, and descriptions of problem types. */
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

/** @param createDocument called at the first request (0.1 s), to keep the start of processes fast */
export function openApiRoutes(createDocument: () => OpenApiDocument): Route[] {
  let document: OpenApiDocument | undefined;
  return [
    route({
      method: 'get',
      path: '/openapi.json',
      operationId: 'getOpenApi',
      tag: 'health',
      summary: 'This description of the API',
      access: 'public',
      responses: { 200: { description: 'An OpenAPI 3.1 document', schema: z.looseObject({ openapi: z.string() }) } },
      handle: () => {
        document ??= createDocument();
        return ok(document);
      },
    }),
  ];
}
