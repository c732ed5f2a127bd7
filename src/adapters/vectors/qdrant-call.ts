import { QdrantClient } from '@qdrant/js-client-rest';
import { type AppError, appError } from '#src/errors.ts';

export type QdrantServer = { url: string; apiKey: string | null };

type QdrantApi = ReturnType<QdrantClient['api']>;

export type QdrantOperation<Params, Result> = (
  params: Params,
  init?: RequestInit,
) => Promise<{ data: { result?: Result } }>;

export type QdrantLimits = { timeoutMs: number; signal?: AbortSignal | undefined };

type QdrantCall = <Params, Result>(
  operation: QdrantOperation<Params, Result>,
  params: Params,
  limits: QdrantLimits,
) => Promise<Result>;

/** Nothing connects before the first call. */
export function createQdrantApi({ url, apiKey }: QdrantServer): { api: QdrantApi; call: QdrantCall } {
  const { protocol, origin, pathname, port } = new URL(url);
  const client = new QdrantClient({
    url: origin,
    // What the client would make of these itself: the path is dropped, and the port of an address without one is 6333.
    prefix: pathname.replace(/\/$/, ''),
    port: Number(port || (protocol === 'https:' ? 443 : 80)),
    // As `apiKey` it would be warned of on the console where the server is on the own network.
    ...(apiKey !== null && { headers: { 'api-key': apiKey } }),
    // Its own timeout would take the place of the signal.
    timeout: Number.POSITIVE_INFINITY,
    checkCompatibility: false,
  });
  const toAppError = createQdrantErrors(apiKey);

  return {
    api: client.api(),
    call: async (operation, params, { timeoutMs, signal }) => {
      const timeout = AbortSignal.timeout(timeoutMs);
      try {
        const { data } = await operation(params, {
          signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
        });
        if (data.result === undefined) throw new TypeError('the answer holds no result');
        return data.result;
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        throw toAppError(error);
      }
    },
  };
}

/** A collection, or its server's word for one, that is not there. */
export function isMissing(error: unknown): boolean {
  return error instanceof Error && statusOf(error.cause) === 404;
}

/** The server does not look for what a filter names without an index. */
export function isWithoutIndex(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error && /index required/i.test(error.cause.message);
}

/** The server does not take a vector of this size. */
export function isWrongSize(error: unknown): boolean {
  return error instanceof Error && error.cause instanceof Error && /dimension/i.test(error.cause.message);
}

/** What the server refused, or how it failed. */
class QdrantError extends Error {
  override readonly name = 'QdrantError';
  readonly status: number | undefined;

  constructor(message: string, status: number | undefined) {
    super(message);
    this.status = status;
  }
}

/**
 * - 4xx but those below: `internal_error`, the request is wrong.
 * - everything else (a refused key, 408, 429, 5xx, network, timeouts): `service_unavailable`, which is waited for.
 *
 * Causes go into logs and run histories: nothing that comes out of here holds `apiKey`.
 */
function createQdrantErrors(apiKey: string | null): (error: unknown) => AppError {
  const mask = (text: string) => (apiKey === null ? text : text.replaceAll(apiKey, '[key]'));
  return (error) => {
    const status = statusOf(error);
    const cause = new QdrantError(mask(wordsOf(error)).slice(0, 1_000), status);
    if (status === 401 || status === 403) {
      const detail = 'The vector store refuses our key; tell the operator.';
      return appError('service_unavailable', { detail, cause });
    }
    if (status !== undefined && status >= 400 && status < 500 && status !== 408 && status !== 429) {
      return appError('internal_error', { cause });
    }
    const detail = isTimeout(error) ? 'The vector store did not answer in time.' : 'The vector store is not reachable.';
    return appError('service_unavailable', { detail, cause });
  };
}

function statusOf(error: unknown): number | undefined {
  if (!(error instanceof Error && 'status' in error)) return undefined;
  return typeof error.status === 'number' ? error.status : undefined;
}

function isTimeout(error: unknown): boolean {
  return error instanceof Error && error.name === 'TimeoutError';
}

/** What an error, the answer that it stands for and its causes say. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const words =
    'data' in error ? `${statusOf(error)} ${JSON.stringify(error.data)}` : `${error.name}: ${error.message}`;
  return error.cause === undefined ? words : `${words} (${wordsOf(error.cause)})`;
}
