import { z } from 'zod';
import { appError, isErrorCode, listErrorCatalogue } from '#src/errors.ts';
import { jsonAnswer, okAnswer } from '../response/answers.ts';
import { defineRoute, type HttpRoute } from '../routing/route.ts';

const checkTimeoutMs = 3_000;
/** Check results are cached, because `/readyz` is public and costs a query and a Temporal call per task queue. */
const checkMaxAgeMs = 1_000;

const healthSchema = z.strictObject({ status: z.literal('ok') }).meta({ id: 'Health' });

export const readinessSchema = z
  .strictObject({
    status: z.enum(['ready', 'not_ready']),
    checks: z.record(z.string(), z.boolean()).describe('Dependencies of the service, and whether each is available'),
  })
  .meta({ id: 'Readiness' });

export function healthRoutes(deps: {
  checks: Record<string, () => Promise<boolean>>;
  isShuttingDown: () => boolean;
}): HttpRoute[] {
  const checks = Object.entries(deps.checks).map(([name, check]) => ({ name, isAvailable: cachedCheck(check) }));
  const readinessQuery = z.strictObject({
    exclude: z
      .enum(Object.keys(deps.checks))
      .optional()
      .describe('Name of a check to skip, such as `workers` for a load balancer: most requests need no worker'),
  });

  async function runChecks(excluded: string | undefined): Promise<Record<string, boolean>> {
    const included = checks.filter(({ name }) => name !== excluded);
    return Object.fromEntries(
      await Promise.all(included.map(async ({ name, isAvailable }) => [name, await isAvailable()] as const)),
    );
  }

  return [
    defineRoute({
      method: 'get',
      path: '/healthz',
      operationId: 'getHealth',
      tag: 'health',
      summary: 'Liveness probe: whether the process answers',
      access: 'public',
      responses: { 200: { description: 'The process is alive', schema: healthSchema } },
      handle: () => okAnswer({ status: 'ok' as const }, { 'Cache-Control': 'no-store' }),
    }),
    defineRoute({
      method: 'get',
      path: '/readyz',
      operationId: 'getReadiness',
      tag: 'health',
      summary: 'Readiness probe: database and workers are available and the process is not shutting down',
      access: 'public',
      query: readinessQuery,
      responses: {
        200: { description: 'The service is ready', schema: readinessSchema },
        503: { description: 'The service is not ready; `checks` says why', schema: readinessSchema },
      },
      handle: async ({ query: { exclude } }) => {
        // During a shutdown `/readyz` fails without running the checks, so that load balancers notice it in time.
        const results = deps.isShuttingDown() ? {} : await runChecks(exclude);
        const checked = { ...results, serving: !deps.isShuttingDown() };
        return Object.values(checked).every(Boolean)
          ? okAnswer({ status: 'ready' as const, checks: checked }, { 'Cache-Control': 'no-store' })
          : jsonAnswer(503, { status: 'not_ready' as const, checks: checked });
      },
    }),
  ];
}

function cachedCheck(check: () => Promise<boolean>): () => Promise<boolean> {
  let cached = { result: false, expiresAtMs: 0 };
  let running: Promise<boolean> | undefined;

  async function run(): Promise<boolean> {
    const result = await succeedsInTime(check);
    cached = { result, expiresAtMs: Date.now() + checkMaxAgeMs };
    running = undefined;
    return result;
  }
  return async () => {
    if (Date.now() < cached.expiresAtMs) return cached.result;
    running ??= run();
    return running;
  };
}

async function succeedsInTime(check: () => Promise<boolean>): Promise<boolean> {
  const { promise: timeout, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(resolve, checkTimeoutMs, false);
  try {
    return await Promise.race([check(), timeout]);
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
    class: z
      .enum(['permanent', 'transient', 'operator'])
      .describe('How a workflow handles the error: it fails, retries, or parks until an operator acts'),
  })
  .meta({ id: 'ProblemType' });

const serviceSchema = z.strictObject({ title: z.string(), docs: z.string(), openapi: z.string(), health: z.string() });

export function serviceInfoRoutes({ title, basePath }: { title: string; basePath: string }): HttpRoute[] {
  return [
    defineRoute({
      method: 'get',
      path: '/',
      operationId: 'getService',
      tag: 'health',
      summary: 'Name of the service, and paths of its documentation and health check',
      access: 'public',
      responses: { 200: { description: 'The name and the paths', schema: serviceSchema } },
      handle: () =>
        okAnswer({
          title,
          docs: `${basePath}/docs`,
          openapi: `${basePath}/openapi.json`,
          health: `${basePath}/healthz`,
        }),
    }),
    defineRoute({
      method: 'get',
      path: '/errors/:code',
      operationId: 'getProblemType',
      tag: 'health',
      summary: 'Describe a problem type; problem responses link here in `type`',
      access: 'public',
      params: z.strictObject({ code: z.string().refine(isErrorCode, { error: 'not_found' }) }),
      responses: { 200: { description: 'The problem type', schema: problemTypeSchema } },
      errors: ['not_found'],
      handle: ({ params }) => {
        const entry = listErrorCatalogue().find(({ code }) => code === params.code);
        if (entry === undefined) throw appError('not_found');
        return okAnswer(entry);
      },
    }),
  ];
}
