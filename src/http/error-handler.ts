import type { NextFunction, Request } from 'express';
import type { Logger } from 'pino';
import { problemHeaders, toAppError, toProblem } from './problem.ts';
import type { AppResponse } from './request-log.ts';
import { sendProblem } from './send-answer.ts';

/** For the rest of a body that is not wanted. */
const timeoutMs = 60_000;
/** The rest of any body that somebody sends to its end before he reads. */
const defaultMaxRestBytes = 256 * 1024 * 1024;

/** Makes every thrown error a problem answer. The cause of a 5xx goes to the log and nowhere else. */
export function createErrorHandler(
  deps: { logger: Logger; isOutage: (error: unknown) => boolean },
  maxRestBytes = defaultMaxRestBytes,
) {
  return (thrown: unknown, req: Request, res: AppResponse, _next: NextFunction): void => {
    const { requestId } = res.locals;
    const error = toAppError(thrown, deps.isOutage);
    res.locals.errorCode = error.code;
    // Half an answer cannot be taken back, and nobody reads one after leaving: only the connection can say so.
    if (res.headersSent || res.destroyed) {
      if (!res.destroyed) {
        deps.logger.error({ msg: 'answer broke off', requestId, route: res.locals.route, err: thrown });
        res.destroy();
      }
      return;
    }
    if (error.status >= 500) {
      deps.logger.error({ msg: 'request failed', requestId, route: res.locals.route, code: error.code, err: thrown });
    }
    // Lets a client that is still sending finish, so that it comes to read the answer.
    req.resume();
    if (!req.complete && !req.destroyed) {
      // A process that ends does not wait for it.
      const late = setTimeout(() => req.destroy(), timeoutMs).unref();
      req.once('close', () => clearTimeout(late));
      let restBytes = 0;
      req.on('data', (piece: Buffer) => {
        restBytes += piece.length;
        if (restBytes > maxRestBytes) req.destroy();
      });
    }
    // The rest of a body that is too slow is not waited for.
    if (error.status === 408) res.set('Connection', 'close');
    const problem = toProblem(error, res.locals);
    sendProblem(res, error.status, problem, problemHeaders(error, req.headers.authorization !== undefined));
  };
}
