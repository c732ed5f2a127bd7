import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { Server as NetServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { ConfigError } from '#src/config/config-error.ts';
import type { Metrics } from '#src/ports/telemetry.ts';

/** Messages for errors of the operating system that concern the port. */
const portErrors: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is already in use by another process',
  EACCES: 'may not be opened by this user',
};
const hostErrors = ['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EINVAL', 'ENOTFOUND', 'EAI_AGAIN'];

/**
 * Resolves once the server listens.
 * @param settings names of the settings of host and port, for the error message
 * @throws ConfigError if the server cannot listen there
 */
export async function listen(
  server: NetServer,
  { host, port }: { host: string; port: number },
  settings: { host: string; port: string },
): Promise<void> {
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const { code } = Object(error);
    const why = portErrors[code];
    if (why !== undefined) throw new ConfigError(`wrong setting ${settings.port}: port ${port} on ${host} ${why}`);
    if (!hostErrors.includes(code)) throw error;
    throw new ConfigError(`wrong setting ${settings.host}: ${host} is not an address of this machine`);
  }
}

const localHost = /^(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?$/i;

/**
 * Whether the `Host` header names this machine. Rejects DNS rebinding, and requests that a proxy forwards with their `Host`.
 */
export function isSentToLocalHost({ host }: IncomingHttpHeaders): boolean {
  return localHost.test(host ?? '');
}

export type PlainAnswer = { status: number; text: string; mediaType: string };

export type PlainServer = { close(): Promise<void> };

/**
 * Starts a server for probes and metrics inside of a deployment: GET only, without authentication.
 * @param settings names of the settings of host and port, for the error message
 * @param pages by path
 * @throws ConfigError if the server cannot listen there
 */
export async function startPlainServer(
  place: { host: string; port: number },
  settings: { host: string; port: string },
  pages: Readonly<Record<string, () => Promise<PlainAnswer> | PlainAnswer>>,
): Promise<PlainServer> {
  const server = createServer({ requestTimeout: 10_000 }, async (req, res) => {
    const path = (req.url ?? '').split('?', 1)[0] ?? '';
    const page = Object.hasOwn(pages, path) ? pages[path] : undefined;
    const isRead = req.method === 'GET' || req.method === 'HEAD';
    if (page === undefined || !isRead) {
      res.writeHead(page === undefined ? 404 : 405, { 'Content-Type': 'text/plain' }).end();
      return;
    }
    const { status, text, mediaType } = await Promise.resolve()
      .then(page)
      .catch(() => ({ status: 500, text: '', mediaType: 'text/plain' }));
    res.writeHead(status, { 'Content-Type': mediaType, 'Cache-Control': 'no-store' });
    res.end(req.method === 'HEAD' ? undefined : text);
  });
  await listen(server, place, settings);
  return {
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Probe response in the format of the API. */
export function probeAnswer(isWell: boolean, words: { yes: string; no: string }): PlainAnswer {
  const text = JSON.stringify({ status: isWell ? words.yes : words.no });
  return { status: isWell ? 200 : 503, text, mediaType: 'application/json' };
}

export function metricsAnswer(metrics: Pick<Metrics, 'page'>): () => Promise<PlainAnswer> {
  return async () => ({ status: 200, ...(await metrics.page()) });
}

/** Time for clients that keep an idle connection open. */
const LINGER_MS = 1_000;

/** Graceful shutdown of a server without losing a request. */
export type GracefulServer = {
  /** From now on every response closes its connection, so that a load balancer opens the next one elsewhere. */
  announce(): void;
  /**
   * Accepts no new connections. Resolves when all running requests have ended (forcibly after `timeoutMs`) and no further
   * request has arrived on an open connection for `lingerMs`.
   */
  close(timeoutMs: number, lingerMs?: number): Promise<void>;
};

/** Call it before the server listens. */
export function createGracefulServer(server: Server): GracefulServer {
  const answers = new Set<ServerResponse>();
  let isLeaving = false;
  let onQuiet = () => {};
  const quiet = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    onQuiet = resolve;
    return promise;
  };

  server.prependListener('request', (_req, res) => {
    answers.add(res);
    res.once('close', () => {
      answers.delete(res);
      if (answers.size === 0) onQuiet();
    });
    if (isLeaving) endConnectionWith(res);
  });

  return {
    announce() {
      isLeaving = true;
      for (const answer of answers) endConnectionWith(answer);
    },

    async close(timeoutMs, lingerMs = LINGER_MS) {
      const deadline = performance.now() + timeoutMs;
      const ended = new AbortController();
      const wait = (ms: number) => delay(ms, undefined, { signal: ended.signal }).catch(() => undefined);
      const closed = once(server, 'close').then(() => ended.abort());
      // This also closes idle connections, after a delay in which clients can notice `Connection: close`.
      server.close();
      while (!ended.signal.aborted && performance.now() < deadline) {
        if (answers.size > 0) await Promise.race([quiet(), wait(deadline - performance.now())]);
        else {
          await wait(lingerMs);
          // A request may have arrived meanwhile on a connection that was kept open; it is answered too.
          if (answers.size === 0) break;
        }
      }
      ended.abort();
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * A response that has begun may already have promised keep-alive; then the next response closes the connection.
 */
function endConnectionWith(res: ServerResponse): void {
  if (!res.headersSent) res.setHeader('Connection', 'close');
}
