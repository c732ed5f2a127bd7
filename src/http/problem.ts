import { z } from 'zod';
import { AppError, appError } from '#src/errors.ts';

/** RFC 9457, with our stable `code`, the request's id, and the wrong fields of a 422. */
export const problemSchema = z
  .strictObject({
    type: z.string().describe('A URI reference that names the kind of problem'),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string().describe('The path that was asked for'),
    code: z.string().describe('A stable word for programs'),
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

/** Seconds after which a client may ask again while something of ours is down: about the time of a failover. */
const retryAfterOutageSeconds = 2;

/** Headers that belong to the error itself. `hadToken` tells a refused token from a missing one (RFC 6750). */
export function problemHeaders(error: AppError, hadToken: boolean): Record<string, string> {
  const headers: Record<string, string> = { 'Cache-Control': 'no-store' };
  if (error.status === 401) {
    headers['WWW-Authenticate'] =
      error.code === 'invalid_token' && hadToken ? 'Bearer error="invalid_token"' : 'Bearer';
  }
  const retryAfter = error.retryAfterSeconds ?? (error.status === 503 ? retryAfterOutageSeconds : undefined);
  if (retryAfter !== undefined) headers['Retry-After'] = String(retryAfter);
  return headers;
}

/**
 * Makes any thrown thing an {@link AppError}. `isOutage` knows the errors of a database that cannot be reached; what
 * nobody expected becomes a bare 500, whose cause is for the log only.
 */
export function toAppError(error: unknown, isOutage: (error: unknown) => boolean): AppError {
  if (error instanceof AppError) return error;
  if (isOutage(error)) return appError('service_unavailable', { cause: error });
  // Express's own: an address that cannot be decoded.
  if (error instanceof URIError) return appError('malformed_request', { detail: 'The address is not well encoded.' });
  return appError('internal_error', { cause: error });
}
