import { once } from 'node:events';
import { createServer } from 'node:http';
import type { Metrics } from '#src/ports/telemetry.ts';
import { listen } from './listen.ts';

export type PlainAnswer = { status: number; text: string; mediaType: string };

export type PlainServer = { close(): Promise<void> };

/**
 * A port for probes and metrics: no accounts, no bodies, and GET only. What listens there is for the inside of a
 * deployment.
 * @param settings the names of those that the place comes from
 * @param pages by their paths
 * @throws ConfigError where nobody can listen
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

/** Of the shape that the API answers its probes in. */
export function probeAnswer(isWell: boolean, words: { yes: string; no: string }): PlainAnswer {
  const text = JSON.stringify({ status: isWell ? words.yes : words.no });
  return { status: isWell ? 200 : 503, text, mediaType: 'application/json' };
}

export function metricsAnswer(metrics: Pick<Metrics, 'page'>): () => Promise<PlainAnswer> {
  return async () => ({ status: 200, ...(await metrics.page()) });
}
