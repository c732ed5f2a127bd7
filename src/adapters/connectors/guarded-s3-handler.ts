import { Readable } from 'node:stream';
import { type Dispatcher, request as send } from 'undici';
import { readBody } from '#src/adapters/providers.ts';
import { appError } from '#src/errors.ts';

/** What the S3 client hands over: signed, with its path already escaped. */
type S3Request = {
  method: string;
  protocol: string;
  hostname: string;
  port?: number;
  path: string;
  query?: Record<string, string | string[] | null>;
  headers: Record<string, string>;
  body?: unknown;
};
type S3Response = { statusCode: number; headers: Record<string, string>; body: Readable };

/** For the whole answer; of an object, for its headers. */
const defaultDeadlineMs = 10_000;
/** Of an object, without a byte. */
const defaultSilenceMs = 30_000;
/**
 * The client parses an answer in one go on the main thread, which takes up to 100 ms of CPU time within these limits. A
 * page of 300 objects with keys of 1,024 bytes fits in, and one of 1,000 objects with shorter keys.
 */
const maxAnswerBytes = 512 * 1024;
const maxTags = 30_000;
/** Limits attributes, which the parser takes in any quotes. S3 sends one or two; the rest is for keys (`year=2026/`). */
const maxEqualsSigns = 10_000;

/**
 * Sends the requests of an S3 client to an endpoint that a user named. Only an object is passed on as a stream; every
 * other answer is read here, within its limits.
 * @param deps.agent a guarded one, which the caller closes
 */
export function createGuardedS3Handler(deps: { agent: Dispatcher; deadlineMs?: number; silenceMs?: number }) {
  const { agent, deadlineMs = defaultDeadlineMs, silenceMs = defaultSilenceMs } = deps;
  return {
    async handle(
      request: S3Request,
      { abortSignal }: { abortSignal?: unknown } = {},
    ): Promise<{ response: S3Response }> {
      const { host: _, ...headers } = request.headers;
      const deadline = new AbortController();
      const timer = setTimeout(() => deadline.abort(), deadlineMs);
      const signals = [deadline.signal, ...(abortSignal instanceof AbortSignal ? [abortSignal] : [])];
      try {
        const {
          statusCode,
          headers: answered,
          body,
        } = await send(urlOf(request), {
          dispatcher: agent,
          method: request.method as Dispatcher.HttpMethod,
          headers,
          bodyTimeout: silenceMs,
          signal: AbortSignal.any(signals),
        });
        const one = Object.entries(answered).map(([name, value]): [string, string] => [
          name,
          [value].flat().join(', '),
        ]);
        const isObject = request.query?.['x-id'] === 'GetObject' && statusCode < 300;
        const content = isObject ? body : Readable.from([await readAnswer(body, statusCode)]);
        return { response: { statusCode, headers: Object.fromEntries(one), body: content } };
      } catch (error) {
        if (deadline.signal.aborted) throw unavailable(`The store takes longer than ${deadlineMs / 1_000} seconds.`);
        throw error;
      } finally {
        clearTimeout(timer);
      }
    },
    httpHandlerConfigs: () => ({}),
    updateHttpClientConfig() {},
    destroy() {},
  };
}

async function readAnswer(body: Readable, statusCode: number): Promise<Buffer> {
  const bytes = await readBody(body, maxAnswerBytes);
  if (bytes === null || hasMore(bytes, '<', maxTags) || hasMore(bytes, '=', maxEqualsSigns)) {
    throw unavailable('The answer of the store is too large.');
  }
  // A page of HTML. S3 sends no document types, and the client's parser takes quadratic time for many of them.
  if (!/<!doctype/i.test(bytes.toString('latin1'))) return bytes;
  if (statusCode >= 300) return Buffer.alloc(0);
  throw notS3();
}

function hasMore(bytes: Buffer, sign: string, limit: number): boolean {
  let at = -1;
  for (let count = 0; count <= limit; count += 1) {
    at = bytes.indexOf(sign, at + 1);
    if (at < 0) return false;
  }
  return true;
}

/** For an answer that no S3 server gives. */
export function notS3() {
  return unavailable('The endpoint does not answer as S3 does. Is it the address of an S3 server?');
}

function unavailable(detail: string) {
  return appError('provider_unavailable', { detail });
}

function urlOf({ protocol, hostname, port, path, query = {} }: S3Request): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    [value].flat().map((each) => (each === null ? escaped(name) : `${escaped(name)}=${escaped(each)}`)),
  );
  const place = port === undefined ? hostname : `${hostname}:${port}`;
  return `${protocol}//${place}${path}${pairs.length === 0 ? '' : `?${pairs.join('&')}`}`;
}

/** As it was signed. */
function escaped(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
}
