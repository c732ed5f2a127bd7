import { APIConnectionError, APIError, OpenAIError } from 'openai';
import { AppError, appError } from '#src/errors.ts';

const messageLimit = 300;
const longestPauseSeconds = 3_600;
const shortestPauseSeconds = 1;

/** Shorter ones are no secrets (a local server takes any word), and blotting them out would spoil the text. */
const minSecretLength = 8;

/**
 * Makes a function that turns what a call of the model service threw into our vocabulary; an aborted call gives the
 * signal's own reason.
 * - 401, 402, 403, 404 and a used-up quota: `model_not_configured`, somebody has to act.
 * - 408, 409, 429, 5xx, network, timeouts and an error within a stream: `model_unavailable`, with the service's
 *   Retry-After.
 * - what says that the text is longer than the model reads, by its code or as 400, 413 or 422 by its words:
 *   `context_too_long`.
 * - other 4xx: `model_rejected`, the same request will not do better.
 * - an answer that is not what the protocol says: `model_response_invalid`.
 *
 * Details go to tenants, causes into logs and run histories, and services repeat the key that they refuse: nothing that
 * comes out of here holds `apiKey`.
 */
export function createModelErrors({ apiKey }: { apiKey: string }) {
  const mask = (text: string) => (apiKey.length < minSecretLength ? text : text.replaceAll(apiKey, '[key]'));
  /** In place of the thrown error, which holds the whole answer with its headers. */
  const causeOf = (error: unknown) => new Error(mask(wordsOf(error)));

  function ofStatus(error: APIError, status: number): AppError {
    const cause = causeOf(error);
    if ([401, 402, 403].includes(status) || error.code === 'insufficient_quota') {
      const detail = 'The model service refuses our key, or its quota is used up; tell the operator.';
      return appError('model_not_configured', { detail, cause });
    }
    const detail = `The model service answered: ${mask(error.message).slice(0, messageLimit)}`;
    if (status === 404) return appError('model_not_configured', { detail, cause });
    if (status >= 500 || [408, 409, 429].includes(status)) {
      const retryAfterSeconds = retryAfter(error.headers);
      return appError('model_unavailable', {
        detail,
        cause,
        ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
      });
    }
    return appError(isContextTooLong(error, status) ? 'context_too_long' : 'model_rejected', { detail, cause });
  }

  return (error: unknown, signal?: AbortSignal): unknown => {
    if (signal?.aborted) return signal.reason;
    if (error instanceof AppError) return error;
    if (error instanceof APIConnectionError || isNetworkFault(error)) {
      const detail = 'The model service could not be reached.';
      return appError('model_unavailable', { detail, cause: causeOf(error) });
    }
    if (error instanceof APIError) return ofStatus(error, error.status ?? statusInStream(error));
    // The client trips over a TypeError itself where an answer has not the shape that it trusts.
    if (error instanceof SyntaxError || error instanceof TypeError || error instanceof OpenAIError) {
      const detail = 'The model service gave an unreadable answer.';
      return appError('model_response_invalid', { detail, cause: causeOf(error) });
    }
    return error;
  };
}

/** A stream that has begun has its status behind it: what fails then is told as an event. */
function statusInStream({ type }: APIError): number {
  return type === 'invalid_request_error' ? 400 : 503;
}

/** Providers say it by a code, by their words, or by both. */
function isContextTooLong({ code, message }: APIError, status: number): boolean {
  if (code === 'context_length_exceeded') return true;
  const words = /context (?:length|window|size)|(?:prompt|input) is too long|maximum (?:context|prompt|input)/i;
  return [400, 413, 422].includes(status) && words.test(message);
}

/** What an error and its causes say. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const words = `${error.name}: ${error.message}`;
  return error.cause === undefined ? words : `${words} (${wordsOf(error.cause)})`;
}

/** What a call threw says that it held too much: in a smaller one the same texts may pass. */
export function isTooLarge(error: unknown): boolean {
  if (!(error instanceof APIError)) return false;
  const { status = 0, message } = error;
  if (status === 413 || isContextTooLong(error, status)) return true;
  return [400, 422].includes(status) && /too (?:many|long|large|big)|maximum|exceed|at most|limit/i.test(message);
}

/**
 * Retry-After as seconds or as a date (RFC 9110 §10.2.3). At most an hour, as a wrong clock must not stop us for days,
 * and at least a second: bulk work that was told "at once" would call without a break.
 */
function retryAfter(headers: Headers | undefined): number | undefined {
  const value = headers?.get('retry-after');
  if (value === null || value === undefined) return undefined;
  const seconds = /^[\d.]+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  if (Number.isNaN(seconds)) return undefined;
  return Math.min(longestPauseSeconds, Math.max(shortestPauseSeconds, Math.ceil(seconds)));
}

/** Undici says `terminated` (a TypeError) when the connection breaks in the middle of a body. */
function isNetworkFault(error: unknown): boolean {
  return error instanceof TypeError && (error.message === 'terminated' || error.message === 'fetch failed');
}
