import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import OpenAI from 'openai';
import { appError } from '#src/errors.ts';

type AnswerLimits = {
  /** Of the whole response, uncompressed. */
  maxBytes: number;
  /** For the whole response; for a stream until its first byte. */
  deadlineMs: number;
  /** Of one event of a stream. */
  maxEventBytes?: number;
};

/** An event ends with one of these, which may be split across pieces. */
const eventEnds = ['\n\n', '\r\r', '\r\n\r\n'];
const eventEndBytes = 4;

/**
 * A `fetch` with limits. The OpenAI client reads responses of any size into memory and waits forever for the end of an
 * error response.
 * @param heard called for every piece that arrives, including comments of a stream
 */
export function limitedFetch(limits: AnswerLimits, heard: () => void = () => {}): typeof fetch {
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

/** Returns the bytes of the event that is not complete yet, for each piece of a stream. */
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
  return appError('model_unavailable', { detail: 'The answer of the model service took too long.' });
}

/** The detail must not say "too large", which would be read as a refusal of a too large request. */
function tooLong() {
  return appError('model_response_invalid', { detail: 'The answer of the model service is longer than the limit.' });
}

/** `traceparent` is only sent to servers of the deployment. */
export type Endpoint = {
  baseUrl: string;
  apiKey: string;
  traceparent?: (() => string | undefined) | undefined;
};

/** Twice the size of a list of 1,000 models or an answer of 100,000 tokens. */
export const maxAnswerBytes = 2_000_000;

/** A client of one provider. It never retries; callers do, because they know whether a user waits. */
export function createOpenAiClient({ baseUrl, apiKey, traceparent }: Endpoint, timeoutMs: number): OpenAI {
  class Client extends OpenAI {
    protected override async prepareRequest(request: RequestInit): Promise<void> {
      const trace = isOwnServer(baseUrl) ? traceparent?.() : undefined;
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
    fetch: limitedFetch({ maxBytes: maxAnswerBytes, deadlineMs: timeoutMs }),
    // No redirects: a prompt with private content must only go to the configured host.
    fetchOptions: { redirect: 'manual' },
  });
}

/** True for this machine, private networks and host names without a dot. */
export function isOwnServer(baseUrl: string): boolean {
  const host = new URL(baseUrl).hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? !host.includes('.') : ipaddr.process(host).range() !== 'unicast';
}
