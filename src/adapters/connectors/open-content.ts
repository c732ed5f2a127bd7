import type { Readable } from 'node:stream';
import { type Dispatcher, request } from 'undici';
import { limitSize, readBodyStart } from '#src/adapters/providers.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ProviderAnswer } from '#src/ports/web.ts';

/**
 * Time limit for a whole file, against endlessly slow downloads. Shorter than the hour of an import step (`transfer` in
 * `workflows/policies.ts`), so that it becomes an error of the file.
 */
export const longestDownloadMs = 50 * 60_000;

/**
 * Limits a download. Fails with `payload_too_large` above `limitBytes`, before the first byte if the announced size is too
 * large, and with `provider_unavailable` if it is interrupted or too slow. Destroying it closes the connection.
 * @param options.announcedBytes 0 if unknown
 */
export function limited(
  body: Readable,
  { announcedBytes, limitBytes, longestMs }: { announcedBytes: number; limitBytes: number; longestMs: number },
): Readable {
  if (announcedBytes > limitBytes) {
    body.on('error', () => {}).destroy();
    throw tooLarge(limitBytes);
  }
  const content = limitSize(limitBytes, () => tooLarge(limitBytes));
  const fail = (detail: string) => content.destroy(appError('provider_unavailable', { detail }));
  const timer = setTimeout(() => fail(`The download takes longer than ${longestMs / 60_000} minutes.`), longestMs);
  body.on('error', () => fail('The provider interrupted the download.'));
  content.once('close', () => {
    clearTimeout(timer);
    body.destroy();
  });
  // An error without a listener would end the process.
  content.on('error', () => {});
  return body.pipe(content);
}

function tooLarge(limitBytes: number) {
  return appError('payload_too_large', { detail: `The file has more than ${limitBytes} bytes.` });
}

const maxRedirects = 3;
/** Limit without a byte of content; also for redirects, headers and the body of an error response. */
const defaultSilenceMs = 30_000;
const maxRefusalBytes = 16_000;

type Request = {
  agent: Dispatcher;
  method?: 'GET' | 'POST';
  /** Called for each URL, because a token must not go to another host. */
  headersFor: (url: string) => Readonly<Record<string, string>>;
  /** Error for a response other than 2xx. */
  failure: (answer: ProviderAnswer, url: string) => AppError;
  limitBytes: number;
  signal: AbortSignal;
  silenceMs?: number | undefined;
  downloadMs?: number | undefined;
};

/** Opens a download and follows redirects. Errors contain no URL, because it may contain a secret. */
export async function openContent(url: string, options: Request): Promise<{ content: Readable; headers: Headers }> {
  const { limitBytes, signal, failure } = options;
  const { silenceMs = defaultSilenceMs, downloadMs: longestMs = longestDownloadMs } = options;
  const opening = new AbortController();
  const timer = setTimeout(() => opening.abort(), silenceMs);
  try {
    const until = AbortSignal.any([signal, opening.signal]);
    const { url: finalUrl, answer } = await follow(url, { ...options, signal: until, silenceMs });
    const headers = headersOf(answer);
    const status = answer.statusCode;
    // 206 without a range request is not the whole file.
    if (status < 200 || status >= 300 || status === 206) {
      throw failure(
        { status, headers, body: (await readBodyStart(answer.body, maxRefusalBytes)).toString('utf8') },
        finalUrl,
      );
    }
    const announcedBytes = Number(headers.get('content-length') ?? 0);
    return { content: limited(answer.body, { announcedBytes, limitBytes, longestMs }), headers };
  } catch (error) {
    throw failedBy(error, signal);
  } finally {
    clearTimeout(timer);
  }
}

async function follow(
  asked: string,
  options: Request & { silenceMs: number },
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
    drop(answer.body);
    const next = new URL(location, url);
    // No downgrade from https.
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

/** Closes the connection. */
function drop(body: Readable): void {
  body.on('error', () => {}).destroy();
}

function failedBy(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (!(error instanceof AppError)) return unavailable('The provider does not answer, or closed the connection.');
  // `url_not_allowed` is for URLs of users; this one comes from the provider or the deployment.
  return error.code === 'url_not_allowed'
    ? unavailable('The provider redirects to a non-public address that EGRESS_ALLOW does not list.')
    : error;
}

function unavailable(detail: string): AppError {
  return appError('provider_unavailable', { detail });
}
