import { randomInt } from 'node:crypto';
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
  let port = randomPort();
  while (!(await isFree(port))) port = randomPort();
  return {
    bindAddress: `127.0.0.1:${port}`,
    async read() {
      const response = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(2_000) });
      return response.text();
    },
  };
}

/** Below those that systems give to outgoing connections: one of these might be taken before the library listens. */
function randomPort(): number {
  return randomInt(12_000, 32_768);
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return true;
  } catch {
    return false;
  } finally {
    server.close();
  }
}
