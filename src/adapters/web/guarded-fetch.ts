import type { Readable, Transform } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { type Dispatcher, request } from 'undici';
import { limitStreamSize } from '#src/adapters/providers.ts';
import { AppError, appError } from '#src/errors.ts';
import type { WebContent, WebFetcher } from '#src/ports/web.ts';
import { urlNotAllowedError } from './guarded-agent.ts';

/** Reads the file name of a Content-Disposition header (RFC 6266), also of common malformed ones. */
export function contentDispositionFileName(header: string): string | null {
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
/** Limit of interim responses such as 103 Early Hints; servers send one or two. */
const maxInterimAnswers = 10;
/**
 * Minimum average size of a response's pieces, checked from `count` pieces on: very many tiny pieces would keep the
 * event loop busy.
 */
const smallPieces = { count: 20_000, averageBytes: 64 };

type Response = Dispatcher.ResponseData;

/** Fetches without cookies, credentials and proxies, and checks each redirect like a new URL. */
export function createGuardedFetch(deps: { agent: Dispatcher; timeoutMs?: number }): WebFetcher {
  const { agent, timeoutMs: defaultTimeoutMs = 20_000 } = deps;

  async function ask(url: URL, accept: string, signal: AbortSignal): Promise<Response> {
    // No Brotli, because Node's decoder had memory errors (CVE-2026-111497), and any user can choose the server.
    const headers = { accept, 'accept-encoding': 'gzip', 'user-agent': userAgent };
    const refusal = new AbortController();
    let interimAnswers = 0;
    const onInfo = () => {
      interimAnswers += 1;
      if (interimAnswers > maxInterimAnswers) {
        refusal.abort(unreachable(`The server sends more than ${maxInterimAnswers} interim responses.`));
      }
    };
    // No keep-alive, because the next fetch usually goes to another server.
    const options = { dispatcher: agent, headers, reset: true, onInfo };
    return request(url, { ...options, signal: AbortSignal.any([signal, refusal.signal]) });
  }

  async function follow(
    asked: string,
    { accept, permits, signal }: { accept: string; permits: (url: URL) => boolean; signal: AbortSignal },
  ): Promise<{ url: URL; response: Response }> {
    let url = permitted(asked);
    for (let redirects = 0; ; redirects += 1) {
      if (!permits(url)) throw urlNotAllowedError('This deployment does not allow this host.');
      const response = await ask(url, accept, signal);
      if (response.statusCode < 300 || response.statusCode >= 400) return { url, response };
      drop(response.body);
      const location = headerOf(response, 'location');
      if (![301, 302, 303, 307, 308].includes(response.statusCode) || location === null) return { url, response };
      if (redirects === maxRedirects) throw unreachable(`The URL redirects more than ${maxRedirects} times.`);
      const next = permitted(location, url.href);
      if (url.protocol === 'https:' && next.protocol === 'http:') {
        throw urlNotAllowedError('The URL redirects from https to http.');
      }
      url = next;
    }
  }

  return {
    async fetch(asked, { limitBytes, timeoutMs = defaultTimeoutMs, accept = '*/*', signal, permits = () => true }) {
      const deadline = AbortSignal.timeout(timeoutMs);
      const failed = (error: unknown): unknown => {
        if (error instanceof AppError) return error;
        if (signal?.aborted) return signal.reason;
        if (deadline.aborted) return unreachable(`The fetch took longer than ${timeoutMs / 1_000} seconds.`, error);
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

/**
 * Validates a URL and removes its fragment and the trailing dot of its host. The HTTP agent later checks the address
 * that the host resolves to.
 */
function permitted(text: string, base?: string): URL {
  if (!URL.canParse(text, base)) throw urlNotAllowedError('The URL, or the target of a redirect, is not a valid URL.');
  const url = new URL(text, base);
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw urlNotAllowedError('Only http and https URLs are allowed.');
  if (url.username !== '' || url.password !== '')
    throw urlNotAllowedError('A URL with a user name or password is not allowed.');
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
  // Refuses 206 (Partial Content), because the request asked for the whole content.
  if (statusCode < 200 || statusCode >= 300 || statusCode === 206) {
    refuse(unreachable(`The server answers ${statusCode}.`));
  }
  if (Number(headerOf(response, 'content-length') ?? 0) > limitBytes) refuse(tooLarge(limitBytes));
  const encoding = headerOf(response, 'content-encoding')?.trim().toLowerCase() || 'identity';
  const unpack = unpackers.get(encoding);
  if (unpack === undefined) return refuse(unreachable('The response has a content encoding that was not requested.'));
  return {
    mediaType: mediaTypeOf(response),
    fileName: contentDispositionFileName(headerOf(response, 'content-disposition') ?? ''),
    content: measured(body, unpack(), limitBytes, failed),
  };
}

/**
 * Decoders of Content-Encoding. Accepts only one encoding per response: several layers would be a decompression bomb.
 */
const unpackers = new Map<string, () => Transform | null>([
  ['identity', () => null],
  ['gzip', createGunzip],
  ['x-gzip', createGunzip],
]);

function measured(
  body: Readable,
  unpacker: Transform | null,
  limitBytes: number,
  failed: (error: unknown) => unknown,
): Readable {
  const content = limitStreamSize(limitBytes, () => tooLarge(limitBytes));
  const fail = (error: unknown) => content.destroy(failed(error) as Error);
  body.on('error', fail);
  unpacker?.on('error', fail);
  content.once('close', () => {
    drop(body);
    unpacker?.destroy();
  });
  // An `error` event without a listener would end the process, and the reader of the content may be gone.
  content.on('error', () => {});
  let pieces = 0;
  let bytes = 0;
  body.on('data', (piece: Buffer) => {
    pieces += 1;
    bytes += piece.length;
    if (pieces > smallPieces.count && bytes < pieces * smallPieces.averageBytes) {
      fail(unreachable('The server sends the content in too many small pieces.'));
      drop(body);
    }
  });
  return (unpacker === null ? body : body.pipe(unpacker)).pipe(content);
}

function drop(body: Readable): void {
  body.on('error', () => {}).destroy();
}

function headerOf({ headers }: Response, name: string): string | null {
  const value = headers[name];
  const [first] = Array.isArray(value) ? value : [value];
  return first === undefined ? null : asWritten(first);
}

/** Node decodes headers as Latin-1, but many servers send UTF-8. */
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
  return appError('payload_too_large', { detail: `The content of the URL is larger than ${limitBytes} bytes.` });
}

function unreachable(detail: string, cause?: unknown): AppError {
  return appError('url_unreachable', { detail, cause });
}

function reasonOf(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  if (/CERT|TLS|SSL|ISSUER/.test(code)) return 'The certificate of the server is invalid, or it does not support TLS.';
  if (code.startsWith('Z_')) return 'The compressed content is damaged.';
  return 'The server does not answer, or the connection broke.';
}
