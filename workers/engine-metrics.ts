import { once } from 'node:events';
import { createServer } from 'node:net';

export type EngineMetrics = {
  /** For the runtime of the library, which listens there. */
  bindAddress: string;
  /** In the format of Prometheus. */
  read(): Promise<string>;
};

/**
 * The metrics of the engine's library (slots, polls, sticky cache, latencies of tasks). It shows them on a port of its
 * own and in no other way: on one of this machine that is free just now, from where they are read for the worker's page.
 */
export async function findEngineMetrics(): Promise<EngineMetrics> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  const closed = once(server, 'close');
  server.close();
  await closed;
  return {
    bindAddress: `127.0.0.1:${port}`,
    async read() {
      const response = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(2_000) });
      return response.text();
    },
  };
}
