import type { NextFunction, Request, Response } from 'express';
import type { Logger } from 'pino';
import { z } from 'zod';
import { AppError, appError } from '#src/errors.ts';
import type { AppResponse } from '../server/middleware.ts';

/** Problem details (RFC 9457) with a stable `code`, the request id, and the invalid fields of a 422. */
export const problemSchema = z
  .strictObject({
    type: z.string().describe('URI reference of the problem type'),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string().describe('Path of the request'),
    code: z.string().describe('Stable error code for programs'),
    request_id: z.string(),
    errors: z.array(z.strictObject({ path: z.string(), message: z.string(), code: z.string() })).optional(),
  })
  .meta({ id: 'Problem' });

export type Problem = z.output<typeof problemSchema>;

export function toProblem(error: AppError, request: { path: string; requestId: string }): Problem {
  return {
    type: `/errors/${error.code}`,
    title: error.title,
    status: error.status,
    detail: error.message,
    instance: request.path,
    code: error.code,
    request_id: request.requestId,
    ...(error.errors === undefined ? {} : { errors: error.errors }),
  };
}

/** Default `Retry-After` of a 503: about the time of a database failover. */
const retryAfterOutageSeconds = 2;

/** `hadToken` distinguishes a rejected access token from a missing one in `WWW-Authenticate` (RFC 6750). */
export function problemHeaders(error: AppError, hadToken: boolean): Record<string, string> {
  const headers: Record<string, string> = { 'Cache-Control': 'no-store' };
  if (error.status === 401) {
    headers['WWW-Authenticate'] =
      error.code === 'invalid_token' && hadToken ? 'Bearer error="invalid_token"' : 'Bearer';
  }
  if (error.code === 'insufficient_scope') headers['WWW-Authenticate'] = 'Bearer error="insufficient_scope"';
  const retryAfter = error.retryAfterSeconds ?? (error.status === 503 ? retryAfterOutageSeconds : undefined);
  if (retryAfter !== undefined) headers['Retry-After'] = String(retryAfter);
  return headers;
}

/**
 * Converts any thrown value into an `AppError`: an outage of the database, which `isOutage` recognizes, into
 * `service_unavailable`, and other unexpected errors into `internal_error`.
 */
export function toAppError(error: unknown, isOutage: (error: unknown) => boolean): AppError {
  if (error instanceof AppError) return error;
  if (isOutage(error)) return appError('service_unavailable', { cause: error });
  // Express throws a URIError for a URL that cannot be decoded.
  if (error instanceof URIError) return appError('malformed_request', { detail: 'The URL is not properly encoded.' });
  return appError('internal_error', { cause: error });
}

export function sendProblem(res: Response, status: number, problem: unknown, headers: Record<string, string>): void {
  res.status(status).set('Content-Type', 'application/problem+json; charset=utf-8').set(headers);
  res.end(JSON.stringify(problem));
}

/** Limits for reading the rest of a rejected request body; when one is reached, the connection is closed. */
const restTimeoutMs = 60_000;
const defaultMaxRestBytes = 256 * 1024 * 1024;

export function createErrorHandler(
  deps: { logger: Logger; isOutage: (error: unknown) => boolean },
  maxRestBytes = defaultMaxRestBytes,
) {
  return (thrown: unknown, req: Request, res: AppResponse, _next: NextFunction): void => {
    const { requestId } = res.locals;
    const error = toAppError(thrown, deps.isOutage);
    res.locals.errorCode = error.code;
    // A response that has begun cannot become an error response, so the connection is closed.
    if (res.headersSent || res.destroyed) {
      if (!res.destroyed) {
        deps.logger.error({ msg: 'response aborted', requestId, route: res.locals.route, err: thrown });
        res.destroy();
      }
      return;
    }
    if (error.status >= 500) {
      deps.logger.error({ msg: 'request failed', requestId, route: res.locals.route, code: error.code, err: thrown });
    }
    // Reads the rest of the request body, because some clients read the response only after they have sent everything.
    req.resume();
    if (!req.complete && !req.destroyed) {
      const late = setTimeout(() => req.destroy(), restTimeoutMs).unref();
      req.once('close', () => clearTimeout(late));
      let restBytes = 0;
      req.on('data', (piece: Buffer) => {
        restBytes += piece.length;
        if (restBytes > maxRestBytes) req.destroy();
      });
    }
    if (error.status === 408) res.set('Connection', 'close');
    const problem = toProblem(error, res.locals);
    sendProblem(res, error.status, problem, problemHeaders(error, req.headers.authorization !== undefined));
  };
}
