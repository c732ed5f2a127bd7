import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { expect } from 'chai';
import { type ServiceProcess, startApiProcess, startWorkerProcess } from '#test/support/child-processes.ts';
import { serveLocally } from '#test/support/local-server.ts';
import { dropCollections, newCollectionPrefix, testQdrantUrl } from '#test/support/services.ts';
import { signUpAt, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

/** Whether a process is started before or after the one that it replaces is stopped. */
type Order = 'start first' | 'stop first';

export type ProductionCluster = Awaited<ReturnType<typeof startProductionCluster>>;

/**
 * The service as it runs in production: two API processes behind a load balancer and three worker processes, each
 * started by the command of its container. They share no disk.
 */
export async function startProductionCluster(settings: Record<string, string>) {
  const balancer = await startLoadBalancer();
  const [qdrantUrl, prefix] = [testQdrantUrl(), newCollectionPrefix()];
  const ofCluster = {
    QDRANT_URL: qdrantUrl,
    QDRANT_COLLECTION_PREFIX: prefix,
    PUBLIC_URL: balancer.baseUrl,
    TRUST_PROXY: 'true',
    DATABASE_POOL_SIZE: '6',
    SHUTDOWN_DELAY_SECONDS: '5',
  };
  const stack = await startStack({ ...ofCluster, ...settings }, { workers: false });
  const disks = await mkdtemp(join(tmpdir(), 'replicas-'));
  const ownDisk = async () => ({ DATA_DIR: await mkdtemp(join(disks, 'replica-')) });
  const startApi = async () => {
    const api = await startApiProcess(stack, await ownDisk());
    await balancer.add(api.baseUrl);
    return api;
  };
  const startWorker = async () => startWorkerProcess(stack, await ownDisk());
  const stopWell = async (old: ServiceProcess) => {
    await old.stop();
    expect(await old.ended, old.log()).equal('exit code 0');
  };
  const stopApi = async (api: Awaited<ReturnType<typeof startApi>>) => {
    await stopWell(api);
    balancer.remove(api.baseUrl);
  };

  const [apis, workers] = await Promise.all([
    Promise.all([startApi(), startApi()]),
    Promise.all([startWorker(), startWorker(), startWorker()]),
  ]);
  return {
    apis,
    workers,
    /** The container of the test process, to inspect the stores. */
    container: stack.container,
    /** Registers a user, whose requests go to the balancer. */
    signUp: () => signUpAt(stack.anonymous.at(balancer.baseUrl)),
    /** Replaces a process as a rolling restart does; fails when the old one does not end with code 0. */
    replaceApi: replacing(apis, startApi, stopApi),
    replaceWorker: replacing(workers, startWorker, stopWell),
    async close() {
      await Promise.all([...apis, ...workers].map((part) => part.stop()));
      await balancer.close();
      await stack.close();
      await dropCollections({ url: qdrantUrl, apiKey: null }, prefix);
      await rm(disks, { recursive: true, force: true });
    },
  };
}

function replacing<Part>(parts: Part[], start: () => Promise<Part>, stop: (part: Part) => Promise<void>) {
  return async (index: number, order: Order): Promise<void> => {
    const old = parts[index];
    if (old === undefined) throw new Error(`there is no process ${index}`);
    if (order === 'stop first') await stop(old);
    parts[index] = await start();
    if (order === 'start first') await stop(old);
  };
}

/** Real balancers probe each second or less often, and processes wait 5 s and longer for them: here all is faster. */
const PROBE_INTERVAL_MS = 200;
const PROBE_TIMEOUT_MS = 5_000;

type Instance = { url: string; isReady: boolean; agent: Agent; stop: AbortController };

/**
 * A load balancer before several processes of the API: round robin among those that are ready, over connections that it
 * keeps. It is stricter than real ones, which retry elsewhere: here each request is sent once, so that errors are seen.
 */
async function startLoadBalancer() {
  const instances = new Map<string, Instance>();
  let turn = 0;
  const { baseUrl, close } = await serveLocally((req, res) => {
    const ready = [...instances.values()].filter(({ isReady }) => isReady);
    const instance = ready[turn++ % ready.length];
    if (instance === undefined) return fail(res, 503, 'no instance is ready');
    void forward(instance, req, res);
  });

  async function watch(instance: Instance): Promise<void> {
    const { signal } = instance.stop;
    while (!signal.aborted) {
      const limits = AbortSignal.any([signal, AbortSignal.timeout(PROBE_TIMEOUT_MS)]);
      const probe = fetch(`${instance.url}/readyz?exclude=workers`, { signal: limits });
      instance.isReady = await probe.then((answer) => answer.text().then(() => answer.ok)).catch(() => false);
      await delay(PROBE_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
    }
  }
  function remove(url: string): void {
    const instance = instances.get(url);
    instances.delete(url);
    instance?.stop.abort();
    instance?.agent.destroy();
  }

  return {
    baseUrl,
    /** Settles once requests are sent to the instance. */
    async add(url: string) {
      const agent = new Agent({ keepAlive: true });
      const instance: Instance = { url, isReady: false, agent, stop: new AbortController() };
      instances.set(url, instance);
      void watch(instance);
      await until(`${url} is ready`, async () => instance.isReady);
    },
    remove,
    async close() {
      for (const url of [...instances.keys()]) remove(url);
      await close();
    },
  };
}

async function forward({ url, agent }: Instance, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const forwarded = { 'x-forwarded-for': req.socket.remoteAddress ?? '', 'x-forwarded-proto': 'http' };
  const headers = { ...withoutHops(req), ...forwarded };
  const upstream = request(new URL(req.url ?? '', url), { agent, method: req.method ?? '', headers });
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
  const { connection, 'keep-alive': keepAlive, 'transfer-encoding': encoding, upgrade, ...passed } = headers;
  return passed;
}

/** Not in the format of the service, so that a test sees that the balancer answered. */
function fail(res: ServerResponse, status: number, reason: string): void {
  res.writeHead(status, { 'content-type': 'text/plain' }).end(`load balancer: ${reason}`);
}
