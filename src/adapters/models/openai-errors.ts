import { APIConnectionError, APIError, OpenAIError } from 'openai';
import { AppError, appError } from '#src/errors.ts';

const MESSAGE_LIMIT = 300;
const longestPauseSeconds = 3_600;

/**
 * Turns what a call of the model service threw into our vocabulary; an aborted call gives the signal's own reason.
 * - 401, 403, 404 and a used-up quota: `model_not_configured`, somebody has to act.
 * - 408, 409, 429, 5xx, network and timeouts: `model_unavailable`, with the service's Retry-After.
 * - other 4xx: `model_rejected`, the same request will not do better.
 * - an answer that is not what the protocol says: `model_response_invalid`.
 */
export function toModelError(error: unknown, signal?: AbortSignal): unknown {
  if (signal?.aborted) return signal.reason;
  if (error instanceof AppError) return error;
  if (error instanceof APIConnectionError || isNetworkFault(error)) {
    return appError('model_unavailable', { detail: 'The model service could not be reached.', cause: error });
  }
  if (error instanceof APIError && error.status !== undefined) return ofStatus(error, error.status);
  if (error instanceof SyntaxError || error instanceof OpenAIError) {
    return appError('model_response_invalid', { detail: 'The model service gave an unreadable answer.', cause: error });
  }
  return error;
}

function ofStatus(error: APIError, status: number): AppError {
  const detail = `The model service answered: ${error.message.slice(0, MESSAGE_LIMIT)}`;
  if ([401, 403, 404].includes(status) || error.code === 'insufficient_quota') {
    return appError('model_not_configured', { detail, cause: error });
  }
  if (status >= 500 || [408, 409, 429].includes(status)) {
    const retryAfterSeconds = retryAfter(error.headers);
    return appError('model_unavailable', {
      detail,
      cause: error,
      ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
    });
  }
  return appError('model_rejected', { detail, cause: error });
}

/** What a call threw says that it held too much: in a smaller one the same texts may pass. */
export function isTooLarge(error: unknown): boolean {
  if (!(error instanceof APIError)) return false;
  const { status, code, message } = error;
  if (status === 413 || code === 'context_length_exceeded') return true;
  return [400, 422].includes(status ?? 0) && /too (many|long|large|big)|maximum|exceed|at most|limit/i.test(message);
}

/** Retry-After as seconds or as a date (RFC 9110 §10.2.3), at most an hour: a wrong clock must not stop us for days. */
function retryAfter(headers: Headers | undefined): number | undefined {
  const value = headers?.get('retry-after');
  if (value === null || value === undefined) return undefined;
  const seconds = /^\d+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.min(longestPauseSeconds, Math.max(0, Math.ceil(seconds))) : undefined;
}

/** Undici says `terminated` (a TypeError) when the connection breaks in the middle of a body. */
function isNetworkFault(error: unknown): boolean {
  return error instanceof TypeError && (error.message === 'terminated' || error.message === 'fetch failed');
}
