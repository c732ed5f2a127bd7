import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { asRecord, asText, invalidProviderAnswer, isRecord, parseJson } from '#src/adapters/providers.ts';
import { AppError, appError } from '#src/errors.ts';
import type { ConnectorAccess, OAuthAccess } from '#src/ports/connectors.ts';
import type { ProviderAnswer, ProviderCaller, ProviderRequest } from '#src/ports/web.ts';
import { openContent } from './open-content.ts';

export type ConnectorDeps = DownloadLimits & {
  call: ProviderCaller;
  /** A guarded one. */
  agent: Dispatcher;
  /** Null for the provider's own hosts. */
  baseUrl: string | null;
};

/** The defaults are right for every deployment; tests set shorter ones. */
type DownloadLimits = { silenceMs?: number; downloadMs?: number };

export type ProviderApi = {
  /** What it answers, an object of JSON. */
  ask(access: ConnectorAccess, url: string, request?: ProviderRequest): Promise<Readonly<Record<string, unknown>>>;
  /** The bytes behind an address, and the headers that came with them. */
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

/** A provider's own word for what went wrong; empty where it gives none. */
export type ReasonOf = (answer: ProviderAnswer) => string;

const maxPauseSeconds = 3_600;
/** More than any provider has in a page of those that are asked for. */
const maxEntries = 2_000;

/**
 * One provider, spoken to with the access of a connection. The token goes to the hosts of `roots` only, wherever an
 * answer leads.
 * @param deps.special what a reason means that its status does not tell
 */
export function createProviderApi(
  deps: Omit<ConnectorDeps, 'baseUrl'> & {
    name: string;
    roots: readonly string[];
    reasonOf: ReasonOf;
    special?: (reason: string, answer: ProviderAnswer) => AppError | null;
  },
): ProviderApi {
  const { call, agent, name, reasonOf, special = () => null, silenceMs, downloadMs } = deps;
  const origins = new Set(deps.roots.map((root) => new URL(root).origin));

  const isOwn = (url: string) => URL.canParse(url) && origins.has(new URL(url).origin);
  const authorization = (access: ConnectorAccess, url: string): Record<string, string> =>
    isOwn(url) ? { authorization: `Bearer ${tokenOf(access)}` } : {};

  function failure(answer: ProviderAnswer): AppError {
    // A word, as what is more might quote what was sent.
    const reason = /^[a-zA-Z_./]{1,80}$/.exec(reasonOf(answer))?.[0] ?? '';
    return special(reason, answer) ?? failureOf(name, answer, reason);
  }

  return {
    async ask(access, url, request = {}) {
      // Pages of a listing are the provider's own; only downloads may be on another host. The address of a page was stored
      // between steps, and may have been changed there.
      if (!isOwn(url)) throw appError('provider_rejected', { detail: `${name} has no such page.` });
      const headers = { accept: 'application/json', ...request.headers, ...authorization(access, url) };
      const answer = await call(url, { ...request, headers });
      if (answer.status < 200 || answer.status >= 300) throw failure(answer);
      const said = answer.body === '' ? null : parseJson(name, answer);
      if (said !== null && !isRecord(said)) throw invalidProviderAnswer(name);
      return said ?? {};
    },
    open: (access, url, { headers = {}, ...request }) =>
      openContent(url, {
        ...request,
        ...{ agent, silenceMs, downloadMs },
        headersFor: (target) => ({ ...headers, ...authorization(access, target) }),
        // An address that is a key by itself says nothing of the grant when it does not open; the next one may.
        failure: (refusal, from) =>
          isOwn(from) || refusal.status >= 429
            ? failure(refusal)
            : appError('provider_unavailable', { detail: `${name} did not hand it out.` }),
      }),
  };
}

/**
 * The entries of a page. Throws for anything but a list of objects: a wrong answer must not look like an empty folder,
 * whose documents a sync may delete.
 */
export function entriesOf(name: string, value: unknown): Readonly<Record<string, unknown>>[] {
  if (!Array.isArray(value) || value.length > maxEntries || !value.every(isRecord)) throw invalidProviderAnswer(name);
  return value;
}

/** An id or a position that the provider always gives. */
export function requiredText(name: string, value: unknown): string {
  const text = asText(value);
  if (text === '') throw invalidProviderAnswer(name);
  return text;
}

export function oauthAccess(access: ConnectorAccess): OAuthAccess {
  if (access.kind !== 'oauth') throw new Error('this provider is connected by OAuth');
  return access;
}

function tokenOf(access: ConnectorAccess): string {
  return oauthAccess(access).accessToken;
}

/** What a status says. 509 is SharePoint's word for too much at once. */
function failureOf(name: string, { status, headers }: ProviderAnswer, reason: string): AppError {
  const said = reason === '' ? '' : `: ${reason}`;
  if (status === 401) return appError('needs_reauth');
  if (status === 404) return appError('remote_file_not_found');
  if (status === 429 || status === 503 || status === 509) return throttled(name, headers);
  if (status >= 400 && status < 500) {
    return appError('provider_rejected', { detail: `${name} refuses what it is asked for (${status}${said}).` });
  }
  return appError('provider_unavailable', { detail: `${name} answers ${status}${said}.` });
}

/** The one media type of folders. */
export const folderMediaType = 'application/x-directory';

/** An id as one part of an address. */
export function segment(id: string): string {
  // These name no thing, but a place above it.
  if (id === '' || id === '.' || id === '..') throw appError('remote_file_not_found');
  return encodeURIComponent(id);
}

/** For what may be missing. */
export function absent(error: unknown): null {
  if (error instanceof AppError && error.code === 'remote_file_not_found') return null;
  throw error;
}

/** What a refusal says, which need not be JSON. */
export function asReason(body: string): Readonly<Record<string, unknown>> {
  try {
    return asRecord(JSON.parse(body));
  } catch {
    return {};
  }
}

export function throttled(name: string, headers: Headers = new Headers()): AppError {
  const retryAfterSeconds = pauseSecondsOf(headers.get('retry-after') ?? '');
  return appError('provider_throttled', {
    detail: `${name} takes no more requests for now.`,
    ...(retryAfterSeconds !== null && { retryAfterSeconds }),
  });
}

/** Of a Retry-After: seconds or a date (RFC 9110 10.2.3), an hour at most. Null for neither. */
export function pauseSecondsOf(text: string): number | null {
  const seconds = /^\d+$/.test(text.trim()) ? Number(text) : Math.ceil((Date.parse(text) - Date.now()) / 1_000);
  return Number.isNaN(seconds) ? null : Math.min(Math.max(seconds, 1), maxPauseSeconds);
}
