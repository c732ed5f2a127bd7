import type { NextFunction, Request } from 'express';
import type { Telemetry } from '#src/ports/telemetry.ts';
import { type AppResponse, PROBES } from './request-log.ts';

/**
 * Measures a request from its first line to the end of its answer, and makes a span of it that all that is done for it
 * belongs to. Both know the template of the route and never the address, which holds ids, cursors and signatures.
 */
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

/** Anybody may send a word of his own. */
function methodOf({ method }: Request): string {
  return ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].includes(method) ? method : 'other';
}
