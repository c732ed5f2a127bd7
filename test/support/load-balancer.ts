import { once } from 'node:events';
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { until } from './until.ts';

/** Real balancers probe each second or less often, and processes wait 5 s and longer for them: here all is faster. */
const PROBE_INTERVAL_MS = 200;
const PROBE_TIMEOUT_MS = 5_000;

/** Headers of one connection, which are not passed on. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'transfer-encoding', 'upgrade'];

/**
 * A load balancer before several processes of the API: round robin among those that are ready, over connections that it
 * keeps. It is stricter than real ones, which retry elsewhere: here each request is sent once, so that errors are seen.
 */
export type LoadBalancer = {
  baseUrl: string;
  /** Settles once requests are sent to the instance. */
  add(instanceUrl: string): Promise<void>;
  remove(instanceUrl: string): void;
  /** How many requests were sent to the instance. */
  servedBy(instanceUrl: string): number;
  close(): Promise<void>;
};

type Instance = { url: URL; isReady: boolean; agent: Agent; stop: AbortController };

export async function startLoadBalancer(): Promise<LoadBalancer> {
  const instances = new Map<string, Instance>();
  const counts = new Map<string, number>();
  let turn = 0;

  const server = createServer((req, res) => {
    const ready = [...instances.values()].filter(({ isReady }) => isReady);
    const instance = ready[turn++ % ready.length];
    if (instance === undefined) return fail(res, 503, 'no instance is ready');
    counts.set(instance.url.href, (counts.get(instance.url.href) ?? 0) + 1);
    void forward(instance, req, res);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  async function watch(instance: Instance): Promise<void> {
    const { signal } = instance.stop;
    while (!signal.aborted) {
      const limits = AbortSignal.any([signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]);
      const probe = fetch(new URL('/readyz?exclude=workers', instance.url), { signal: limits });
      instance.isReady = await probe.then((answer) => answer.text().then(() => answer.ok)).catch(() => false);
      await delay(PROBE_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async add(instanceUrl) {
      const agent = new Agent({ keepAlive: true });
      const url = new URL(instanceUrl);
      const instance: Instance = { url, isReady: false, agent, stop: new AbortController() };
      instances.set(instanceUrl, instance);
      void watch(instance);
      await until(`${instanceUrl} is ready`, async () => instance.isReady);
    },
    remove(instanceUrl) {
      const instance = instances.get(instanceUrl);
      instances.delete(instanceUrl);
      instance?.stop.abort();
      instance?.agent.destroy();
    },
    servedBy: (instanceUrl) => counts.get(new URL(instanceUrl).href) ?? 0,
    async close() {
      const closed = once(server, 'close');
      for (const { stop, agent } of instances.values()) {
        stop.abort();
        agent.destroy();
      }
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function forward({ url, agent }: Instance, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { hostname, port } = url;
  const forwarded = { 'x-forwarded-for': req.socket.remoteAddress ?? '', 'x-forwarded-proto': 'http' };
  const headers = { ...withoutHops(req), ...forwarded };
  const upstream = request({ hostname, port, agent, method: req.method, path: req.url, headers });
  const answered = once(upstream, 'response') as Promise<[IncomingMessage]>;
  // An answer may come before the whole body has gone.
  const sent = pipeline(req, upstream).catch(() => undefined);
  res.once('close', () => {
    if (!res.writableFinished) upstream.destroy();
  });
  try {
    const [answer] = await answered;
    res.writeHead(answer.statusCode ?? 502, withoutHops(answer));
    res.flushHeaders();
    await pipeline(answer, res);
    await sent;
  } catch (error) {
    if (res.headersSent) res.destroy();
    else fail(res, 502, `${error} on a ${upstream.reusedSocket ? 'kept' : 'new'} connection`);
  }
}

function withoutHops({ headers }: IncomingMessage): IncomingMessage['headers'] {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.includes(name)));
}

/** Not in the format of the service, so that a test sees that the balancer answered. */
function fail(res: ServerResponse, status: number, reason: string): void {
  res.writeHead(status, { 'content-type': 'text/plain' }).end(`load balancer: ${reason}`);
}
