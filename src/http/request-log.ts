import { randomUUID } from 'node:crypto';
import type { NextFunction, Request, Response } from 'express';
import type { Logger } from 'pino';

/** What a request gathers on its way, for its answer and its line in the log. */
export type RequestLocals = {
  requestId: string;
  path: string;
  orgId?: string;
  userId?: string;
  sessionId?: string;
  route?: string;
  /** Of the problem that was answered. */
  errorCode?: string;
};
export type AppResponse = Response<unknown, RequestLocals>;

/** Asked every few seconds, for as long as the process lives: a line each would bury all others. */
export const PROBES = ['/healthz', '/readyz', '/metrics'];

/** Gives a request its id (the client's when it is a plain word) and writes one line when it is over. */
export function createRequestLog(logger: Logger) {
  return (req: Request, res: AppResponse, next: NextFunction): void => {
    const given = req.get('x-request-id') ?? '';
    const requestId = /^[\w.:-]{1,128}$/.test(given) ? given : randomUUID();
    const startedMs = performance.now();
    res.locals.requestId = requestId;
    res.locals.path = req.originalUrl.split('?', 1)[0] ?? '';
    res.set('X-Request-Id', requestId);
    res.once('close', () => {
      const isUsual = PROBES.includes(res.locals.route ?? '') && res.statusCode === 200;
      // The route's template and never the address: addresses carry cursors, search texts and signatures.
      logger[isUsual ? 'debug' : 'info']({
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
