import type { Readable } from 'node:stream';
import { type Dispatcher, request } from 'undici';
import {
  invalidProviderResponseError,
  isPlainObject,
  limitStreamSize,
  parseProviderJson,
  readResponseBodyStart,
  recordOrEmptyObject,
  textOrEmptyString,
} from '#src/adapters/providers.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ConnectorAccess, OAuthConnectorAccess } from '#src/ports/connectors.ts';
import type { ProviderHttpClient, ProviderHttpRequest, ProviderHttpResponse } from '#src/ports/web.ts';

export type ConnectorDeps = DownloadLimits & {
  call: ProviderHttpClient;
  /** An HTTP agent with the SSRF guard, because providers choose the URLs of downloads. */
  agent: Dispatcher;
  baseUrl: string | null;
};

type DownloadLimits = { silenceMs?: number; downloadMs?: number };

type ProviderApi = {
  ask(access: ConnectorAccess, url: string, request?: ProviderHttpRequest): Promise<Readonly<Record<string, unknown>>>;
  open(
    access: ConnectorAccess,
    url: string,
    request: {
      headers?: Readonly<Record<string, string>>;
      method?: 'GET' | 'POST';
      limitBytes: number;
      signal: AbortSignal;
    },
  ): Promise<{ content: Readable; headers: Headers }>;
};

type ReadErrorCode = (answer: ProviderHttpResponse) => string;

const maxPauseSeconds = 3_600;
const maxEntries = 2_000;

/**
 * Calls one provider's API with the access token of a connection. The token is sent only to the hosts of `roots`,
 * wherever a response redirects to.
 * @param deps.errorByCode maps error codes whose meaning the HTTP status does not give
 */
export function createProviderApiClient(
  deps: Omit<ConnectorDeps, 'baseUrl'> & {
    name: string;
    roots: readonly string[];
    readErrorCode: ReadErrorCode;
    errorByCode?: (reason: string, answer: ProviderHttpResponse) => AppError | null;
  },
): ProviderApi {
  const { call, agent, name, readErrorCode, errorByCode = () => null, silenceMs, downloadMs } = deps;
  const origins = new Set(deps.roots.map((root) => new URL(root).origin));

  const isOwn = (url: string) => URL.canParse(url) && origins.has(new URL(url).origin);
  const authorization = (access: ConnectorAccess, url: string): Record<string, string> =>
    isOwn(url) ? { authorization: `Bearer ${tokenOf(access)}` } : {};

  function failure(answer: ProviderHttpResponse): AppError {
    // Keeps only the provider's error code: a longer text may quote the request.
    const reason = /^[a-zA-Z_./]{1,80}$/.exec(readErrorCode(answer))?.[0] ?? '';
    return errorByCode(reason, answer) ?? failureOf(name, answer, reason);
  }

  return {
    async ask(access, url, request = {}) {
      // The URL of a listing page comes from a stored cursor, which may have been changed: the access token is sent
      // only to the provider's own hosts. Downloads may be on other hosts.
      if (!isOwn(url))
        throw appError('provider_rejected', { detail: `The URL of the listing page does not belong to ${name}.` });
      const headers = { accept: 'application/json', ...request.headers, ...authorization(access, url) };
      const answer = await call(url, { ...request, headers });
      if (answer.status < 200 || answer.status >= 300) throw failure(answer);
      const said = answer.body === '' ? null : parseProviderJson(name, answer);
      if (said !== null && !isPlainObject(said)) throw invalidProviderResponseError(name);
      return said ?? {};
    },
    open: (access, url, { headers = {}, ...request }) =>
      openContent(url, {
        ...request,
        ...{ agent, silenceMs, downloadMs },
        headersFor: (target) => ({ ...headers, ...authorization(access, target) }),
        // A failed download from another host says nothing about the connection's grant: a new pre-signed URL may work.
        failure: (refusal, from) =>
          isOwn(from) || refusal.status >= 429
            ? failure(refusal)
            : appError('provider_unavailable', { detail: `The download URL that ${name} returned does not work.` }),
      }),
  };
}

/** Throws unless the value is a list of objects: a wrong response must not look like an empty folder to a sync. */
export function requireObjectListInResponse(name: string, value: unknown): Readonly<Record<string, unknown>>[] {
  if (!Array.isArray(value) || value.length > maxEntries || !value.every(isPlainObject))
    throw invalidProviderResponseError(name);
  return value;
}

export function requireTextInResponse(name: string, value: unknown): string {
  const text = textOrEmptyString(value);
  if (text === '') throw invalidProviderResponseError(name);
  return text;
}

export function requireOAuthAccess(access: ConnectorAccess): OAuthConnectorAccess {
  if (access.kind !== 'oauth') throw new Error('this provider needs an OAuth connection, not access keys');
  return access;
}

function tokenOf(access: ConnectorAccess): string {
  return requireOAuthAccess(access).accessToken;
}

/** 509 is SharePoint's status for an exceeded bandwidth limit. */
function failureOf(name: string, { status, headers }: ProviderHttpResponse, reason: string): AppError {
  const said = reason === '' ? '' : `: ${reason}`;
  if (status === 401) return appError('needs_reauth');
  if (status === 404) return appError('remote_file_not_found');
  if (status === 429 || status === 503 || status === 509) return rateLimitedByProviderError(name, headers);
  if (status >= 400 && status < 500) {
    return appError('provider_rejected', { detail: `${name} rejected the request (${status}${said}).` });
  }
  return appError('provider_unavailable', { detail: `${name} responded with ${status}${said}.` });
}

export const folderMediaType = 'application/x-directory';

export function encodeUrlSegment(id: string): string {
  // An empty id, `.` or `..` would address the parent resource.
  if (id === '' || id === '.' || id === '..') throw appError('remote_file_not_found');
  return encodeURIComponent(id);
}

export function nullIfNotFound(error: unknown): null {
  if (error instanceof AppError && error.code === 'remote_file_not_found') return null;
  throw error;
}

export function parseProviderErrorBody(body: string): Readonly<Record<string, unknown>> {
  try {
    return recordOrEmptyObject(JSON.parse(body));
  } catch {
    return {};
  }
}

export function rateLimitedByProviderError(name: string, headers: Headers = new Headers()): AppError {
  const retryAfterSeconds = parseRetryAfterSeconds(headers.get('retry-after') ?? '');
  return appError('provider_throttled', {
    detail: `${name} limits the rate of requests.`,
    ...(retryAfterSeconds !== null && { retryAfterSeconds }),
  });
}

/** Parses `Retry-After`: seconds or a date (RFC 9110 10.2.3), at most an hour. Returns null for anything else. */
export function parseRetryAfterSeconds(text: string): number | null {
  const seconds = /^\d+$/.test(text.trim()) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1_000);
  return Number.isNaN(seconds) ? null : Math.min(Math.max(seconds, 1), maxPauseSeconds);
}

/**
 * Time limit for a whole download, against endlessly slow ones. Shorter than the hour of an import step
 * (`transferPolicy` in `workflows/policies.ts`), so that a slow file fails alone and not the step with all its files.
 */
export const maxDownloadMs = 50 * 60_000;

/**
 * Limits the size and the time of a download. Fails with `payload_too_large` above `limitBytes`, before the first byte
 * if the announced size is too large, and with `provider_unavailable` if it is interrupted or too slow. Destroying the
 * returned stream closes the connection.
 * @param options.announcedBytes 0 if unknown
 */
export function limitDownloadSizeAndTime(
  body: Readable,
  { announcedBytes, limitBytes, longestMs }: { announcedBytes: number; limitBytes: number; longestMs: number },
): Readable {
  if (announcedBytes > limitBytes) {
    body.on('error', () => {}).destroy();
    throw tooLarge(limitBytes);
  }
  const content = limitStreamSize(limitBytes, () => tooLarge(limitBytes));
  const fail = (detail: string) => content.destroy(appError('provider_unavailable', { detail }));
  const timer = setTimeout(() => fail(`The download takes longer than ${longestMs / 60_000} minutes.`), longestMs);
  body.on('error', () => fail('The provider interrupted the download.'));
  content.once('close', () => {
    clearTimeout(timer);
    body.destroy();
  });
  // An `error` event without a listener would end the process.
  content.on('error', () => {});
  return body.pipe(content);
}

function tooLarge(limitBytes: number) {
  return appError('payload_too_large', { detail: `The file has more than ${limitBytes} bytes.` });
}

const maxRedirects = 3;
/** Time limit between two bytes of a download; also for redirects, headers and the body of an error response. */
const defaultSilenceMs = 30_000;
const maxErrorBodyBytes = 16_000;

type DownloadRequest = {
  agent: Dispatcher;
  method?: 'GET' | 'POST';
  headersFor: (url: string) => Readonly<Record<string, string>>;
  failure: (answer: ProviderHttpResponse, url: string) => AppError;
  limitBytes: number;
  signal: AbortSignal;
  silenceMs?: number | undefined;
  downloadMs?: number | undefined;
};

/** Opens a download and follows redirects. Errors contain no URL, because it may contain a secret. */
async function openContent(url: string, options: DownloadRequest): Promise<{ content: Readable; headers: Headers }> {
  const { limitBytes, signal, failure } = options;
  const { silenceMs = defaultSilenceMs, downloadMs: longestMs = maxDownloadMs } = options;
  const opening = new AbortController();
  const timer = setTimeout(() => opening.abort(), silenceMs);
  try {
    const until = AbortSignal.any([signal, opening.signal]);
    const { url: finalUrl, answer } = await follow(url, { ...options, signal: until, silenceMs });
    const headers = headersOf(answer);
    const status = answer.statusCode;
    // Refuses 206 (Partial Content): without a range request, it is not the whole file.
    if (status < 200 || status >= 300 || status === 206) {
      throw failure(
        { status, headers, body: (await readResponseBodyStart(answer.body, maxErrorBodyBytes)).toString('utf8') },
        finalUrl,
      );
    }
    const announcedBytes = Number(headers.get('content-length') ?? 0);
    return { content: limitDownloadSizeAndTime(answer.body, { announcedBytes, limitBytes, longestMs }), headers };
  } catch (error) {
    throw toDownloadError(error, signal);
  } finally {
    clearTimeout(timer);
  }
}

async function follow(
  asked: string,
  options: DownloadRequest & { silenceMs: number },
): Promise<{ url: string; answer: Dispatcher.ResponseData }> {
  const { agent, headersFor, method = 'GET', signal, silenceMs } = options;
  let url = asked;
  for (let redirects = 0; redirects <= maxRedirects; redirects += 1) {
    const answer = await request(url, {
      dispatcher: agent,
      method,
      headers: { 'user-agent': 'AgentConversationService', ...headersFor(url) },
      bodyTimeout: silenceMs,
      signal,
    });
    const location = headersOf(answer).get('location');
    if (![301, 302, 303, 307, 308].includes(answer.statusCode) || location === null) return { url, answer };
    closeConnection(answer.body);
    const next = new URL(location, url);
    if (url.startsWith('https:') && next.protocol !== 'https:')
      throw unavailable('The provider redirects from https to http.');
    url = next.href;
  }
  throw unavailable(`The provider redirects more than ${maxRedirects} times.`);
}

function headersOf({ headers }: Dispatcher.ResponseData): Headers {
  return new Headers(
    Object.entries(headers).flatMap(([name, value = []]) => [value].flat().map((one): [string, string] => [name, one])),
  );
}

function closeConnection(body: Readable): void {
  body.on('error', () => {}).destroy();
}

function toDownloadError(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (!(error instanceof AppError)) return unavailable('The provider does not respond, or closed the connection.');
  // `url_not_allowed` is the error for a URL that a user entered. This URL comes from the provider or the settings, so
  // the error is replaced.
  return error.code === 'url_not_allowed'
    ? unavailable('The provider redirects to a non-public address that EGRESS_ALLOW does not list.')
    : error;
}

function unavailable(detail: string): AppError {
  return appError('provider_unavailable', { detail });
}
