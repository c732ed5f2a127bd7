import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { type ServiceProcess, startApiProcess, startWorkerProcess } from './child-processes.ts';
import type { Member } from './client.ts';
import { type LoadBalancer, startLoadBalancer } from './load-balancer.ts';
import { dropCollections, newCollectionPrefix, testQdrantUrl } from './services.ts';
import { type Stack, signUpAt, startStack } from './stack.ts';

export type ApiProcess = ServiceProcess & { baseUrl: string };

/** Whether a process is started before or after the one that it replaces is stopped. */
export type Order = 'start first' | 'stop first';

/**
 * The service as it runs in production: API processes behind a load balancer and worker processes, each started by the
 * command of its container. They share no disk.
 */
export type ProductionCluster = {
  balancer: LoadBalancer;
  apis: ApiProcess[];
  workers: ServiceProcess[];
  /** The container of the test process, to inspect the stores. */
  container: Stack['container'];
  /** Registers a user, whose requests go to the balancer. */
  signUp(name?: string): Promise<Member>;
  /** Replaces a process as a rolling restart does; fails when the old one does not end with code 0. */
  replaceApi(index: number, order: Order): Promise<void>;
  replaceWorker(index: number, order: Order): Promise<void>;
  close(): Promise<void>;
};

export async function startProductionCluster(
  settings: Record<string, string>,
  size: { apis: number; workers: number },
): Promise<ProductionCluster> {
  const balancer = await startLoadBalancer();
  const [qdrantUrl, prefix] = [testQdrantUrl(), newCollectionPrefix()];
  const stack = await startStack(
    {
      QDRANT_URL: qdrantUrl,
      QDRANT_COLLECTION_PREFIX: prefix,
      PUBLIC_URL: balancer.baseUrl,
      TRUST_PROXY: 'true',
      DATABASE_POOL_SIZE: '6',
      SHUTDOWN_DELAY_SECONDS: '5',
      ...settings,
    },
    { workers: false },
  );
  const dataDirs: string[] = [];
  const ownDisk = async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'replica-'));
    dataDirs.push(dataDir);
    return { DATA_DIR: dataDir };
  };
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
  const stopApi = async (api: ApiProcess) => {
    await stopWell(api);
    balancer.remove(api.baseUrl);
  };

  const times = <Part>(count: number, start: () => Promise<Part>) => Promise.all(Array.from({ length: count }, start));
  const [apis, workers] = await Promise.all([times(size.apis, startApi), times(size.workers, startWorker)]);
  return {
    balancer,
    apis,
    workers,
    container: stack.container,
    signUp: (name) => signUpAt(stack.anonymous.at(balancer.baseUrl), name),
    replaceApi: (index, order) => replace(apis, index, order, startApi, stopApi),
    replaceWorker: (index, order) => replace(workers, index, order, startWorker, stopWell),
    async close() {
      await Promise.all([...apis, ...workers].map((part) => part.stop()));
      await balancer.close();
      await stack.close();
      await dropCollections({ url: qdrantUrl, apiKey: null }, prefix);
      for (const dataDir of dataDirs) await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function replace<Part>(
  parts: Part[],
  index: number,
  order: Order,
  start: () => Promise<Part>,
  stop: (part: Part) => Promise<void>,
): Promise<void> {
  const old = parts[index];
  if (old === undefined) throw new Error(`there is no process ${index}`);
  if (order === 'stop first') await stop(old);
  parts[index] = await start();
  if (order === 'start first') await stop(old);
}
