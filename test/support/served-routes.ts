import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import express from 'express';
import pino from 'pino';
import type { ConcurrencyLimit } from '#src/domain/access/limits.ts';
import { appError } from '#src/errors.ts';
import type { BearerAuthenticator } from '#src/http/request/authentication.ts';
import { createEventStreamRegistry, type EventStreamRegistry } from '#src/http/response/event-streams.ts';
import { createErrorHandler } from '#src/http/response/problem.ts';
import { createDispatcher, createRouteTable } from '#src/http/routing/dispatch.ts';
import { createConcurrencyLimiter } from '#src/http/routing/request-limits.ts';
import type { HttpRoute } from '#src/http/routing/route.ts';
import { createRequestLog } from '#src/http/server/middleware.ts';
import type { IdempotencyStore } from '#src/ports/idempotency-store.ts';

export type ServedRoutes = { baseUrl: string; streams: EventStreamRegistry; close(): Promise<void> };

/** The HTTP core with routes of the test's own, on a port of its own. */
export async function serveRoutes(
  routes: readonly HttpRoute[],
  deps: {
    authenticate?: BearerAuthenticator;
    activeSessions?: (sessionIds: readonly string[]) => Promise<ReadonlySet<string>>;
    idempotency?: IdempotencyStore;
    maxRestBytes?: number;
    uploadLimit?: ConcurrencyLimit;
    requestLimit?: ConcurrencyLimit;
  } = {},
): Promise<ServedRoutes> {
  const logger = pino({ level: 'silent' });
  const isOutage = () => false;
  const streams = createEventStreamRegistry({
    activeSessions: deps.activeSessions ?? (async (ids) => new Set(ids)),
    onWarning: () => undefined,
    checkEveryMs: 10,
  });
  const dispatch = createDispatcher({
    publicUrl: null,
    authenticate: deps.authenticate ?? (() => Promise.reject(appError('invalid_token'))),
    idempotency: deps.idempotency ?? noIdempotency,
    fingerprintKey: randomBytes(32),
    rateLimit: async () => {},
    concurrency: createConcurrencyLimiter({
      requests: deps.requestLimit ?? null,
      streams: null,
      ...(deps.uploadLimit !== undefined && { uploads: deps.uploadLimit }),
    }),
    readInTurn: (_, read) => read(),
    streams,
    logger,
    isOutage,
  });
  const app = express().set('query parser', 'simple').disable('etag');
  app.use(createRequestLog(logger));
  app.use(createRouteTable(routes, dispatch));
  app.use(createErrorHandler({ logger, isOutage }, deps.maxRestBytes));
  const server = createServer(app).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    streams,
    close: async () => {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** For routes that are not idempotent. */
const noIdempotency: IdempotencyStore = {
  claim: () => Promise.reject(new Error('no idempotency here')),
  renew: () => Promise.reject(new Error('no idempotency here')),
  complete: () => Promise.reject(new Error('no idempotency here')),
  release: () => Promise.reject(new Error('no idempotency here')),
  forgetExpired: () => Promise.reject(new Error('no idempotency here')),
};
