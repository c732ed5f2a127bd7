import { z } from 'zod';
import { answer, ok } from './answers.ts';
import { createExpiringCache } from './expiring-cache.ts';
import { type Route, route } from './route.ts';

const checkTimeoutMs = 3_000;
/** Anybody may ask, and an answer costs a query and two calls of the workflow engine. */
const checkMaxAgeMs = 1_000;

export const healthSchema = z.strictObject({ status: z.literal('ok') }).meta({ id: 'Health' });

export const readinessSchema = z
  .strictObject({
    status: z.enum(['ready', 'not_ready']),
    checks: z.record(z.string(), z.boolean()).describe('Each thing that the service needs, and whether it is there'),
  })
  .meta({ id: 'Readiness' });

/** Is the process alive, and can it do its work? `checks` resolve with true when the thing they ask is there. */
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
  const recent = createExpiringCache<boolean>(names.length);
  const check = ([name, ask]: [string, () => Promise<boolean>]) =>
    recent.get(name, async () => ({ value: await holds(ask), expiresAtMs: Date.now() + checkMaxAgeMs }));

  async function checked(exclude: string | undefined): Promise<Record<string, boolean>> {
    const asked = Object.entries(deps.checks).filter(([name]) => name !== exclude);
    return Object.fromEntries(await Promise.all(asked.map(async (one) => [one[0], await check(one)] as const)));
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
        // At once, however busy everything is: a balancer has to know it before the door is closed.
        const found = deps.isLeaving() ? {} : await checked(exclude);
        const checks = { ...found, serving: !deps.isLeaving() };
        return Object.values(checks).every(Boolean)
          ? ok({ status: 'ready' as const, checks }, { 'Cache-Control': 'no-store' })
          : answer(503, { status: 'not_ready' as const, checks });
      },
    }),
  ];
}

async function holds(check: () => Promise<boolean>): Promise<boolean> {
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
