import type { Readable } from 'node:stream';
import { type Dispatcher, request as send } from 'undici';

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

const answerTimeoutMs = 10_000;
/** Without a byte. */
const silenceTimeoutMs = 30_000;

/** Takes the requests of an S3 client to addresses that users have named: by a guarded agent, which this does not own. */
export function createGuardedS3Handler({ agent }: { agent: Dispatcher }) {
  return {
    async handle(
      request: S3Request,
      { abortSignal }: { abortSignal?: unknown } = {},
    ): Promise<{ response: S3Response }> {
      const { host: _, ...headers } = request.headers;
      const {
        statusCode,
        headers: answered,
        body,
      } = await send(urlOf(request), {
        dispatcher: agent,
        method: request.method as Dispatcher.HttpMethod,
        headers,
        headersTimeout: answerTimeoutMs,
        bodyTimeout: silenceTimeoutMs,
        ...(abortSignal instanceof AbortSignal && { signal: abortSignal }),
      });
      const one = Object.entries(answered).map(([name, value]): [string, string] => [name, [value].flat().join(', ')]);
      return { response: { statusCode, headers: Object.fromEntries(one), body } };
    },
    httpHandlerConfigs: () => ({}),
    updateHttpClientConfig() {},
    destroy() {},
  };
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
