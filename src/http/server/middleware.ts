import { randomUUID } from 'node:crypto';
import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import cors from 'cors';
import type { NextFunction, Request, RequestHandler, Response } from 'express';
import helmet, { type HelmetOptions } from 'helmet';
import type { Logger } from 'pino';
import type { Telemetry } from '#src/ports/telemetry.ts';

type RequestLocals = {
  requestId: string;
  path: string;
  orgId?: string;
  userId?: string;
  sessionId?: string;
  route?: string;
  errorCode?: string;
  isSigned?: boolean;
};
export type AppResponse = Response<unknown, RequestLocals>;

/** Probes come every few seconds, so successful ones are only logged at debug level. */
const PROBES = ['/healthz', '/readyz', '/metrics'];

/** Assigns the request id (the client's `X-Request-Id` if it is valid) and logs one line when the request ends. */
export function createRequestLog(logger: Logger) {
  // The line has no field that could contain a secret, and looking for one takes half of the time of the line.
  const lines = logger.child({}, { redact: [] });
  return (req: Request, res: AppResponse, next: NextFunction): void => {
    const given = req.get('x-request-id') ?? '';
    const requestId = /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID();
    const startedMs = performance.now();
    res.locals.requestId = requestId;
    res.locals.path = req.originalUrl.split('?', 1)[0] ?? '';
    res.set('X-Request-Id', requestId);
    res.once('close', () => {
      const isRoutine = PROBES.includes(res.locals.route ?? '') && res.statusCode === 200;
      // The URL is never logged, because it may contain cursors, search texts and signatures.
      lines[isRoutine ? 'debug' : 'info']({
        msg: 'request',
        method: req.method,
        route: res.locals.route ?? null,
        status: res.statusCode,
        durationMs: Math.round(performance.now() - startedMs),
        requestId,
        userId: res.locals.userId,
        code: res.locals.errorCode,
        ...(res.writableFinished ? {} : { clientLeft: true }),
      });
    });
    next();
  };
}

/** Metrics and spans contain the route template and never the URL, which may contain ids and signatures. */
export function createRequestTelemetry({ metrics, tracing }: Telemetry) {
  return (req: Request, res: AppResponse, next: NextFunction): void => {
    const startedMs = performance.now();
    const span =
      tracing.isOn && !PROBES.some((path) => req.path.endsWith(path))
        ? tracing.start({
            name: req.method,
            kind: 'server',
            parent: req.get('traceparent'),
            attributes: { 'http.request.method': req.method, 'acs.request_id': res.locals.requestId },
          })
        : undefined;
    res.once('close', () => {
      const { method, statusCode } = { method: methodOf(req), statusCode: res.statusCode };
      const route = res.locals.route ?? 'none';
      const seconds = (performance.now() - startedMs) / 1_000;
      const status = `${Math.floor(statusCode / 100)}xx`;
      metrics.time('acs_http_request_duration_seconds', { method, route, status }, seconds);
      if (span === undefined) return;
      span.rename(`${method} ${route}`);
      span.set({
        'http.route': res.locals.route,
        'http.response.status_code': statusCode,
        'acs.org_id': res.locals.orgId,
      });
      span.end(statusCode >= 500 ? String(statusCode) : undefined);
    });
    if (span === undefined) next();
    else span.run(next);
  };
}

/** Helmet's headers do not depend on the request, so its middlewares run once, when the server starts. */
export function createSecurityHeaders(options: HelmetOptions): RequestHandler {
  const sample = new ServerResponse(new IncomingMessage(new Socket()));
  helmet(options)(sample.req, sample, () => undefined);
  const headers = Object.entries(sample.getHeaders()).map(([name, value]) => [name, String(value)] as const);
  return (_req, res, next) => {
    for (const [name, value] of headers) res.setHeader(name, value);
    next();
  };
}

/** Unknown HTTP methods share one label value in metrics, because clients may send any text as a method. */
function methodOf({ method }: Request): string {
  return ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].includes(method) ? method : 'other';
}

const allowedHeaders =
  'Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Prefer, X-Request-Id';
const exposedHeaders =
  'Content-Disposition, ETag, Idempotency-Replayed, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id';

/** Allows browsers of the listed origins. Tokens are sent in a header, so credentials (cookies) are not allowed. */
export function createCors(origins: readonly string[]): RequestHandler[] {
  return [
    // `Vary: Origin` is set for all origins, because a shared cache must not give the response for one origin to
    // another.
    (_req, res, next) => {
      res.vary('Origin');
      next();
    },
    cors({
      // The value `false` makes the `cors` package continue with the request without adding CORS headers.
      origin: (origin, decide) => decide(null, origin !== undefined && origins.includes(origin) ? origin : false),
      methods: 'GET, POST, PUT, PATCH, DELETE',
      allowedHeaders,
      exposedHeaders,
      maxAge: 600,
    }),
  ];
}
