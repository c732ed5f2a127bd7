import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { type ServiceProcess, startApiProcess, startWorkerProcess } from './child-processes.ts';
import type { Member } from './client.ts';
import { type LoadBalancer, startLoadBalancer } from './load-balancer.ts';
import { dropCollections, newCollectionPrefix } from './qdrant.ts';
import { testQdrantUrl } from './services.ts';
import { type Stack, signUpAt, startStack } from './stack.ts';

export type ApiProcess = ServiceProcess & { baseUrl: string };

/** Which of the two comes first when a process takes the place of another. */
export type Order = 'start first' | 'stop first';

/**
 * The service as it runs in production: processes of the API behind a load balancer and processes of workers, each
 * started by the command of its container, on services that they are told the addresses of. They share no disk.
 */
export type ProductionCluster = {
  balancer: LoadBalancer;
  apis: ApiProcess[];
  workers: ServiceProcess[];
  /** Of this process, to look into the stores; nobody asks its API, and it has no workers. */
  container: Stack['container'];
  /** Registers a user, who asks the balancer. */
  signUp(name?: string): Promise<Member>;
  startWorker(): Promise<ServiceProcess>;
  /** As a rolling restart does with one of them; fails when the old process does not end well. */
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

  const [apis, workers] = await Promise.all([
    Promise.all(Array.from({ length: size.apis }, startApi)),
    Promise.all(Array.from({ length: size.workers }, startWorker)),
  ]);
  return {
    balancer,
    apis,
    workers,
    container: stack.container,
    signUp: (name) => signUpAt(stack.anonymous.at(balancer.baseUrl), name),
    startWorker,
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
