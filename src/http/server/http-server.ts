import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { Server as NetServer } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import type { Request, Response } from 'express';
import { ConfigError } from '#src/config/read-settings.ts';
import type { Metrics } from '#src/ports/telemetry.ts';

const portErrors: Readonly<Record<string, string>> = {
  EADDRINUSE: 'is already in use by another process',
  EACCES: 'may not be opened by this user',
};
const hostErrors = ['EADDRNOTAVAIL', 'EAFNOSUPPORT', 'EINVAL', 'ENOTFOUND', 'EAI_AGAIN'];

/**
 * Starts listening. Throws a ConfigError on failure; `settings` are the names of the host and port settings for its
 * message.
 */
export async function listenOnPort(
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

/** Whether `Host` names this machine. False for DNS rebinding and for proxied requests that keep their `Host`. */
export function isSentToLocalHost({ host }: IncomingHttpHeaders): boolean {
  return localHost.test(host ?? '');
}

type ProbeResponse = { status: number; text: string; mediaType: string };

type ProbeServer = { close(): Promise<void> };

/**
 * Starts a server for probes and metrics inside of a deployment, without authentication. Throws as {@link listenOnPort} does.
 * @param pages GET handlers by path
 */
export async function startProbeServer(
  address: { host: string; port: number },
  settings: { host: string; port: string },
  pages: Readonly<Record<string, () => Promise<ProbeResponse> | ProbeResponse>>,
): Promise<ProbeServer> {
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
  await listenOnPort(server, address, settings);
  return {
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

export function createProbeResponse(isHealthy: boolean, words: { yes: string; no: string }): ProbeResponse {
  const text = JSON.stringify({ status: isHealthy ? words.yes : words.no });
  return { status: isHealthy ? 200 : 503, text, mediaType: 'application/json' };
}

export function createMetricsResponse(metrics: Pick<Metrics, 'page'>): () => Promise<ProbeResponse> {
  return async () => ({ status: 200, ...(await metrics.page()) });
}

/** Serves metrics on the API's port to clients on this machine only. Proxied requests get 404. */
export function createMetricsHandler(metrics: Pick<Metrics, 'page'>) {
  return async (req: Request, res: Response, next: () => void): Promise<void> => {
    res.locals.route = '/metrics';
    const isForwarded = ['forwarded', 'x-forwarded-for', 'x-forwarded-host'].some(
      (name) => req.get(name) !== undefined,
    );
    if (isForwarded || !isSentToLocalHost(req.headers)) return next();
    const { text, mediaType } = await metrics.page();
    res.set({ 'Content-Type': mediaType, 'Cache-Control': 'no-store' }).send(text);
  };
}

/** How long a shutdown waits for further requests on open connections after the last request has ended. */
const LINGER_MS = 1_000;

export type GracefulServer = {
  /** Sends `Connection: close` with every further response, so that load balancers connect to another process. */
  announce(): void;
  /**
   * Stops accepting connections. Resolves when all requests have ended (they are aborted after `timeoutMs`) and no
   * further request has come for `lingerMs`.
   */
  close(timeoutMs: number, lingerMs?: number): Promise<void>;
};

/** Prepares a server for a shutdown that loses no request. Call it before the server listens. */
export function createGracefulServer(server: Server): GracefulServer {
  const answers = new Set<ServerResponse>();
  let isShuttingDown = false;
  let onIdle = () => {};
  const whenIdle = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    onIdle = resolve;
    return promise;
  };

  server.prependListener('request', (_req, res) => {
    answers.add(res);
    res.once('close', () => {
      answers.delete(res);
      if (answers.size === 0) onIdle();
    });
    if (isShuttingDown) endConnectionWith(res);
  });

  return {
    announce() {
      isShuttingDown = true;
      for (const answer of answers) endConnectionWith(answer);
    },

    async close(timeoutMs, lingerMs = LINGER_MS) {
      const deadline = performance.now() + timeoutMs;
      const ended = new AbortController();
      const wait = (ms: number) => delay(ms, undefined, { signal: ended.signal }).catch(() => undefined);
      const closed = once(server, 'close').then(() => ended.abort());
      // `server.close` also closes idle connections, after a delay in which clients can notice `Connection: close`.
      server.close();
      while (!ended.signal.aborted && performance.now() < deadline) {
        if (answers.size > 0) await Promise.race([whenIdle(), wait(deadline - performance.now())]);
        else {
          await wait(lingerMs);
          // Waits again if requests have arrived on open connections in the meantime.
          if (answers.size === 0) break;
        }
      }
      ended.abort();
      server.closeAllConnections();
      await closed;
    },
  };
}

function endConnectionWith(res: ServerResponse): void {
  if (!res.headersSent) res.setHeader('Connection', 'close');
}
