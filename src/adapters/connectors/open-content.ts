import type { Readable } from 'node:stream';
import { type Dispatcher, request } from 'undici';
import { readBeginning } from '#src/adapters/bounded-body.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ProviderAnswer } from '#src/ports/web.ts';
import { limited, longestDownloadMs } from './limited-content.ts';

const maxRedirects = 3;
/** Without a byte of the content; also for all that comes before it: redirects, headers, the text of a refusal. */
const defaultSilenceMs = 30_000;
const maxRefusalBytes = 16_000;

type Request = {
  agent: Dispatcher;
  method?: 'GET' | 'POST';
  /** Asked for each address anew: a token is not for everybody. */
  headersFor: (url: string) => Readonly<Record<string, string>>;
  /** Of what is no 2xx, and where it came from. */
  failure: (answer: ProviderAnswer, url: string) => AppError;
  limitBytes: number;
  signal: AbortSignal;
  silenceMs?: number | undefined;
  downloadMs?: number | undefined;
};

/** Opens what a provider has for download, with its redirects. Errors quote no address: it may be a key by itself. */
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
    // A part, without having asked for one, is not the whole.
    if (status < 200 || status >= 300 || status === 206) {
      throw failure(
        { status, headers, body: (await readBeginning(answer.body, maxRefusalBytes)).toString('utf8') },
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
    // An answer that TLS was to protect is not taken without it.
    if (url.startsWith('https:') && next.protocol !== 'https:') throw unavailable('It leads from https to http.');
    url = next.href;
  }
  throw unavailable(`It redirects more than ${maxRedirects} times.`);
}

function headersOf({ headers }: Dispatcher.ResponseData): Headers {
  return new Headers(
    Object.entries(headers).flatMap(([name, value = []]) => [value].flat().map((one): [string, string] => [name, one])),
  );
}

/** Hangs up. */
function drop(body: Readable): void {
  body.on('error', () => {}).destroy();
}

function failedBy(error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted) return signal.reason;
  if (!(error instanceof AppError)) return unavailable('It does not answer, or breaks off.');
  // The agent's word for an address that a user has given; this one is the provider's or the deployment's.
  return error.code === 'url_not_allowed'
    ? unavailable('It leads to an address that is not public, and EGRESS_ALLOW does not name it.')
    : error;
}

function unavailable(detail: string): AppError {
  return appError('provider_unavailable', { detail });
}
