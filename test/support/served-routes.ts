import { randomBytes } from 'node:crypto';
import express from 'express';
import pino, { type Logger } from 'pino';
import type { ConcurrencyLimit } from '#src/domain/access/limits.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import type { BearerAuthenticator } from '#src/http/request/authentication.ts';
import { createUrlSignatures } from '#src/http/request/url-signatures.ts';
import { createEventStreamRegistry } from '#src/http/response/event-streams.ts';
import { createErrorHandler } from '#src/http/response/problem.ts';
import { createDispatcher } from '#src/http/routing/dispatch.ts';
import { createConcurrencyLimiter } from '#src/http/routing/request-limits.ts';
import type { HttpRoute } from '#src/http/routing/route.ts';
import { createRouteTable } from '#src/http/routing/route-table.ts';
import { createRequestLog } from '#src/http/server/middleware.ts';
import type { IdempotencyStore } from '#src/ports/idempotency-store.ts';
import { serveLocally } from './local-server.ts';

export type ServedRoutes = Awaited<ReturnType<typeof serveRoutes>>;

/** The facts of a route that a test of the HTTP core does not care about. */
export const routeAt = <Method extends HttpRoute['method']>(method: Method, path: string) => {
  return { method, path, operationId: `${method} ${path}`, tag: 'tests', summary: 'A route of the tests' };
};
export const done = { 204: { description: 'Done' } } as const;

const actor: Actor = {
  ...{ userId: 'u', orgId: 'o', isOrgAdmin: false, contributesToOrganization: false },
  ...{ teamIds: [], teamAdminOf: [], openTeamIds: [] },
};
export const anActor = (fields: Partial<Actor> = {}): Actor => ({ ...actor, ...fields });

type Deps = {
  authenticate?: BearerAuthenticator;
  activeSessions?: (sessionIds: readonly string[]) => Promise<ReadonlySet<string>>;
  idempotency?: IdempotencyStore;
  maxRestBytes?: number;
  uploadLimit?: ConcurrencyLimit;
  logger?: Logger;
};

/** Serves routes by the HTTP core on a port of its own. Every token is that of `actor` unless told otherwise. */
export async function serveRoutes(routes: readonly HttpRoute[], deps: Deps = {}) {
  const { logger = pino({ level: 'silent' }), uploadLimit: uploads } = deps;
  const isOutage = () => false;
  const streams = createEventStreamRegistry({
    activeSessions: deps.activeSessions ?? (async (ids) => new Set(ids)),
    onWarning: () => undefined,
    checkEveryMs: 10,
  });
  const caller = { actor, sessionId: 's', scopes: null, actorNow: async () => actor };
  const dispatch = createDispatcher({
    publicUrl: null,
    authenticate: deps.authenticate ?? (async () => caller),
    authenticateSession: async () => caller,
    signatures: createUrlSignatures({ key: randomBytes(32), lifetimeSeconds: 60 }),
    idempotency: deps.idempotency ?? ({} as IdempotencyStore),
    fingerprintKey: randomBytes(32),
    rateLimit: async () => {},
    concurrency: createConcurrencyLimiter({ requests: null, streams: null, ...(uploads && { uploads }) }),
    readInTurn: (_, read) => read(),
    streams,
    logger,
    isOutage,
  });
  const app = express().set('query parser', 'simple').disable('etag');
  app.use(createRequestLog(logger));
  app.use(createRouteTable(routes, dispatch));
  app.use(createErrorHandler({ logger, isOutage }, deps.maxRestBytes));
  return { ...(await serveLocally(app)), streams };
}
