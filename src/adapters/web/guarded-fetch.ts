import type { Readable, Transform } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { type Dispatcher, request } from 'undici';
import { atMost } from '#src/adapters/bounded-body.ts';
import { AppError, appError } from '#src/errors.ts';
import type { WebContent, WebFetcher } from '#src/ports/web.ts';
import { urlNotAllowed } from './guarded-agent.ts';

/** The file name of a Content-Disposition header (RFC 6266), as servers really write it; null when it has none. */
export function dispositionFileName(header: string): string | null {
  const [, charset = '', encoded = ''] = /;\s*filename\*\s*=\s*"?([\w-]+)'[^']*'([^;"]+)/i.exec(header) ?? [];
  const extended = decodeExtended(charset, encoded.trim());
  if (extended) return extended;
  const [, quoted, plain] = /;\s*filename\s*=\s*(?:"((?:\\.|[^"\\])*)"|([^;"]+))/i.exec(header) ?? [];
  const name = quoted?.replace(/\\(["\\])/g, '$1') ?? plain?.trim();
  return name || null;
}

function decodeExtended(charset: string, text: string): string | null {
  const bytes = Buffer.from(
    text.replace(/%([0-9a-f]{2})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
  try {
    return new TextDecoder(charset, { fatal: true }).decode(bytes) || null;
  } catch {
    return null;
  }
}

const userAgent = 'AgentConversationService';
const maxRedirects = 3;
/** Answers before the answer, as 103 Early Hints: servers send one or two. */
const maxInterimAnswers = 10;
/** Each piece of a body costs a turn of the event loop: a server must not make many of few bytes. */
const smallPieces = { count: 20_000, averageBytes: 64 };

type Response = Dispatcher.ResponseData;

/**
 * Fetches through a guarded agent, with no cookies, credentials or proxies. Redirects are followed by hand, each of them
 * like a new address.
 * @param deps.timeoutMs default timeout of a fetch
 */
export function createGuardedFetch(deps: { agent: Dispatcher; timeoutMs?: number }): WebFetcher {
  const { agent, timeoutMs: defaultTimeoutMs = 20_000 } = deps;

  async function ask(url: URL, accept: string, signal: AbortSignal): Promise<Response> {
    // Not Brotli: any user can name a server, and Node's decoder has had memory errors (CVE-2026-111497).
    const headers = { accept, 'accept-encoding': 'gzip', 'user-agent': userAgent };
    const refusal = new AbortController();
    let interimAnswers = 0;
    const onInfo = () => {
      interimAnswers += 1;
      if (interimAnswers > maxInterimAnswers) {
        refusal.abort(unreachable(`It sends more than ${maxInterimAnswers} interim answers.`));
      }
    };
    // Without keep-alive: the next fetch is of another server.
    const options = { dispatcher: agent, headers, reset: true, onInfo };
    return request(url, { ...options, signal: AbortSignal.any([signal, refusal.signal]) });
  }

  async function follow(
    asked: string,
    { accept, permits, signal }: { accept: string; permits: (url: URL) => boolean; signal: AbortSignal },
  ): Promise<{ url: URL; response: Response }> {
    let url = permitted(asked);
    for (let redirects = 0; ; redirects += 1) {
      if (!permits(url)) throw urlNotAllowed('Only what this deployment allows is asked.');
      const response = await ask(url, accept, signal);
      if (response.statusCode < 300 || response.statusCode >= 400) return { url, response };
      drop(response.body);
      const location = headerOf(response, 'location');
      if (![301, 302, 303, 307, 308].includes(response.statusCode) || location === null) return { url, response };
      if (redirects === maxRedirects) throw unreachable(`It redirects more than ${maxRedirects} times.`);
      const next = permitted(location, url.href);
      // An answer that TLS was to protect is not taken without it.
      if (url.protocol === 'https:' && next.protocol === 'http:') throw urlNotAllowed('It leads from https to http.');
      url = next;
    }
  }

  return {
    async fetch(asked, { limitBytes, timeoutMs = defaultTimeoutMs, accept = '*/*', signal, permits = () => true }) {
      const deadline = AbortSignal.timeout(timeoutMs);
      const failed = (error: unknown): unknown => {
        if (error instanceof AppError) return error;
        if (signal?.aborted) return signal.reason;
        if (deadline.aborted) return unreachable(`It takes longer than ${timeoutMs / 1_000} seconds.`, error);
        return unreachable(reasonOf(error), error);
      };
      try {
        const until = signal === undefined ? deadline : AbortSignal.any([signal, deadline]);
        const { url, response } = await follow(asked, { accept, permits, signal: until });
        return { finalUrl: url.href, ...read(response, limitBytes, failed) };
      } catch (error) {
        throw failed(error);
      }
    },
  };
}

/** The address without fragment and last dot. Refuses what needs no connection to be refused; the agent does the rest. */
function permitted(text: string, base?: string): URL {
  if (!URL.canParse(text, base)) throw urlNotAllowed('It leads to something that is no address.');
  const url = new URL(text, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw urlNotAllowed('Only http and https are asked.');
  if (url.username !== '' || url.password !== '') throw urlNotAllowed('An address may hold no user and password.');
  url.hash = '';
  url.hostname = url.hostname.replace(/\.$/, '');
  return url;
}

function read(
  response: Response,
  limitBytes: number,
  failed: (error: unknown) => unknown,
): Omit<WebContent, 'finalUrl'> {
  const { statusCode, body } = response;
  const refuse = (error: AppError): never => {
    drop(body);
    throw error;
  };
  // A part, without having asked for one, is not the whole.
  if (statusCode < 200 || statusCode >= 300 || statusCode === 206) refuse(unreachable(`It answers ${statusCode}.`));
  if (Number(headerOf(response, 'content-length') ?? 0) > limitBytes) refuse(tooLarge(limitBytes));
  const encoding = headerOf(response, 'content-encoding')?.trim().toLowerCase() || 'identity';
  const unpack = unpackers.get(encoding);
  if (unpack === undefined) return refuse(unreachable('It answers in an encoding that was not asked for.'));
  return {
    mediaType: mediaTypeOf(response),
    fileName: dispositionFileName(headerOf(response, 'content-disposition') ?? ''),
    content: measured(body, unpack(), limitBytes, failed),
  };
}

/** One layer only: layers upon layers are nothing that servers send, but bombs. */
const unpackers = new Map<string, () => Transform | null>([
  ['identity', () => null],
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
]);

/** Counts what comes out, not what comes in. */
function measured(
  body: Readable,
  unpacker: Transform | null,
  limitBytes: number,
  failed: (error: unknown) => unknown,
): Readable {
  const content = atMost(limitBytes, () => tooLarge(limitBytes));
  const fail = (error: unknown) => content.destroy(failed(error) as Error);
  body.on('error', fail);
  unpacker?.on('error', fail);
  content.once('close', () => {
    drop(body);
    unpacker?.destroy();
  });
  // Its reader may have left when it fails, and an error that nobody hears ends the process.
  content.on('error', () => {});
  let pieces = 0;
  let bytes = 0;
  body.on('data', (piece: Buffer) => {
    pieces += 1;
    bytes += piece.length;
    if (pieces > smallPieces.count && bytes < pieces * smallPieces.averageBytes) {
      fail(unreachable('It sends its content in too many small pieces.'));
      drop(body);
    }
  });
  return (unpacker === null ? body : body.pipe(unpacker)).pipe(content);
}

/** Hangs up. */
function drop(body: Readable): void {
  body.on('error', () => {}).destroy();
}

function headerOf({ headers }: Response, name: string): string | null {
  const value = headers[name];
  const [first] = Array.isArray(value) ? value : [value];
  return first === undefined ? null : asWritten(first);
}

/** Headers are Latin-1 by their rules and UTF-8 by the habits of servers. */
function asWritten(header: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(header, 'latin1'));
  } catch {
    return header;
  }
}

function mediaTypeOf(response: Response): string {
  const type = headerOf(response, 'content-type') ?? '';
  return /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}(?:\s*;[^\r\n]{0,255})?$/.test(type)
    ? type
    : 'application/octet-stream';
}

function tooLarge(limitBytes: number): AppError {
  return appError('payload_too_large', { detail: `What is at this address has more than ${limitBytes} bytes.` });
}

function unreachable(detail: string, cause?: unknown): AppError {
  return appError('url_unreachable', { detail, cause });
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (/CERT|TLS|SSL|ISSUER/.test(code)) return 'Its certificate is not valid, or it does not speak TLS.';
  if (code.startsWith('Z_')) return 'What it sends is damaged.';
  return 'It does not answer, or breaks off.';
}
