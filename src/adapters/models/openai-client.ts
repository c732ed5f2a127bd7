import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import OpenAI, { APIConnectionError, APIError, OpenAIError } from 'openai';
import { AppError, appError } from '#src/errors.ts';

type ResponseLimits = {
  maxBytes: number;
  deadlineMs: number;
  maxEventBytes?: number;
};

/** A server-sent event ends with one of these line breaks, which may be split across two network reads. */
const eventEnds = ['\n\n', '\r\r', '\r\n\r\n'];
const eventEndBytes = 4;

/** Creates a limited `fetch`: the OpenAI client reads responses of any size, and waits forever for error bodies. */
export function createSizeLimitedFetch(limits: ResponseLimits, heard: () => void = () => {}): typeof fetch {
  const { maxBytes, deadlineMs, maxEventBytes } = limits;
  return async (input, init) => {
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(tooSlow()), deadlineMs).unref();
    const response = await fetch(input, {
      ...init,
      signal: AbortSignal.any([init?.signal ?? [], deadline.signal].flat()),
    });
    heard();
    if (response.ok && maxEventBytes !== undefined) clearTimeout(timer);
    if (response.body === null) return response;
    const openBytes = maxEventBytes === undefined ? () => 0 : createEventMeter();
    let sizeBytes = 0;
    const limited = new TransformStream<Uint8Array, Uint8Array>({
      transform(bytes, controller) {
        heard();
        sizeBytes += bytes.length;
        if (sizeBytes > maxBytes || openBytes(bytes) > (maxEventBytes ?? maxBytes)) throw tooLong();
        controller.enqueue(bytes);
      },
      flush: () => clearTimeout(timer),
    });
    return new Response(response.body.pipeThrough(limited), response);
  };
}

function createEventMeter(): (bytes: Uint8Array) => number {
  let openBytes = 0;
  let tail: Uint8Array = new Uint8Array();
  return (bytes) => {
    const seen = Buffer.concat([tail, bytes]);
    const end = Math.max(...eventEnds.map((sign) => seen.lastIndexOf(sign)));
    openBytes = end < 0 ? openBytes + bytes.length : seen.length - end;
    tail = seen.subarray(-eventEndBytes + 1);
    return openBytes;
  };
}

function tooSlow() {
  return appError('model_unavailable', { detail: 'The model service did not answer in time.' });
}

/** This error text must not say "too large": `isRequestTooLargeError` would take it for a rejected request. */
function tooLong() {
  return appError('model_response_invalid', { detail: 'The response of the model service is longer than the limit.' });
}

/** A model service. `traceparent` is only sent to internal servers (see `isServerInPrivateNetwork`). */
export type ModelEndpoint = {
  baseUrl: string;
  apiKey: string;
  traceparent?: (() => string | undefined) | undefined;
};

/** Size limit of a response: twice the size of a list of 1,000 models or of an answer of 100,000 tokens. */
export const maxModelResponseBytes = 2_000_000;

/** Creates an OpenAI client that never retries; callers retry, because they know whether a user waits. */
export function createOpenAiClient({ baseUrl, apiKey, traceparent }: ModelEndpoint, timeoutMs: number): OpenAI {
  class Client extends OpenAI {
    protected override async prepareRequest(request: RequestInit): Promise<void> {
      const trace = isServerInPrivateNetwork(baseUrl) ? traceparent?.() : undefined;
      if (trace !== undefined && request.headers instanceof Headers) request.headers.set('traceparent', trace);
    }
  }
  return new Client({
    baseURL: baseUrl,
    apiKey,
    organization: null,
    project: null,
    maxRetries: 0,
    timeout: timeoutMs,
    logLevel: 'off',
    fetch: createSizeLimitedFetch({ maxBytes: maxModelResponseBytes, deadlineMs: timeoutMs }),
    // Redirects are not followed: a prompt with private content must only go to the configured host.
    fetchOptions: { redirect: 'manual' },
  });
}

/** True for a server on this machine, in a private network, or with a host name without a dot. */
export function isServerInPrivateNetwork(baseUrl: string): boolean {
  const host = new URL(baseUrl).hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? !host.includes('.') : ipaddr.process(host).range() !== 'unicast';
}

const messageLimit = 300;
const longestPauseSeconds = 3_600;
const shortestPauseSeconds = 1;

/** API keys below this length are not masked: they are placeholders for local servers, and may be common words. */
const minSecretLength = 8;

/**
 * Maps errors of the OpenAI client to the error catalogue. For an aborted call, returns the reason of its signal.
 * - 401, 402, 403, 404, exhausted quota: `model_not_configured`; an operator has to act.
 * - 408, 409, 429, 5xx, network errors, timeouts, errors within a stream: `model_unavailable`, with Retry-After.
 * - a text beyond the context window, recognized by error code, or by message for 400, 413, 422: `context_too_long`.
 * - other 4xx: `model_rejected`; a retry would fail again.
 * - a response that violates the protocol: `model_response_invalid`.
 *
 * Removes `apiKey` from details (shown to tenants) and causes (logs, run histories), because services quote rejected
 * keys.
 */
export function createModelErrorMapper({ apiKey }: { apiKey: string }) {
  const mask = (text: string) => (apiKey.length < minSecretLength ? text : text.replaceAll(apiKey, '[key]'));
  /** Replaces the OpenAI client's error as a cause, because it contains the whole response with its headers. */
  const causeOf = (error: unknown) => new Error(mask(wordsOf(error)));

  function ofStatus(error: APIError, status: number): AppError {
    const cause = causeOf(error);
    if ([401, 402, 403].includes(status) || error.code === 'insufficient_quota') {
      const detail = 'The model service rejects the API key, or its quota is exhausted. Contact the operator.';
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
    // The OpenAI client throws a TypeError for a response of an unexpected shape.
    if (error instanceof SyntaxError || error instanceof TypeError || error instanceof OpenAIError) {
      const detail = 'The response of the model service is unreadable.';
      return appError('model_response_invalid', { detail, cause: causeOf(error) });
    }
    return error;
  };
}

/** An error event within a stream has no HTTP status, because 200 was sent at the beginning of the stream. */
function statusInStream({ type }: APIError): number {
  return type === 'invalid_request_error' ? 400 : 503;
}

function isContextTooLong({ code, message }: APIError, status: number): boolean {
  if (code === 'context_length_exceeded') return true;
  const words = /context (?:length|window|size)|(?:prompt|input) is too long|maximum (?:context|prompt|input)/i;
  return [400, 413, 422].includes(status) && words.test(message);
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const words = `${error.name}: ${error.message}`;
  return error.cause === undefined ? words : `${words} (${wordsOf(error.cause)})`;
}

/** True if a service rejected an embedding call because of its size, so that a smaller batch may succeed. */
export function isRequestTooLargeError(error: unknown): boolean {
  if (!(error instanceof APIError)) return false;
  const { status = 0, message } = error;
  if (status === 413 || isContextTooLong(error, status)) return true;
  return [400, 422].includes(status) && /too (?:many|long|large|big)|maximum|exceed|at most|limit/i.test(message);
}

/** Limits Retry-After to an hour, in case a clock is wrong, and to a second, so that bulk work does not spin. */
function retryAfter(headers: Headers | undefined): number | undefined {
  const value = headers?.get('retry-after');
  if (value === null || value === undefined) return undefined;
  const seconds = /^[\d.]+$/.test(value) ? Number(value) : (Date.parse(value) - Date.now()) / 1000;
  if (Number.isNaN(seconds)) return undefined;
  return Math.min(longestPauseSeconds, Math.max(shortestPauseSeconds, Math.ceil(seconds)));
}

/** undici throws a TypeError `terminated` when the connection breaks while a body is received. */
function isNetworkFault(error: unknown): boolean {
  return error instanceof TypeError && (error.message === 'terminated' || error.message === 'fetch failed');
}
