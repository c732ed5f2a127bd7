import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { until } from '#test/support/until.ts';
import { type RunningChild, startChild } from '../../scripts/supervisor/child-process.ts';
import type { ChildSpec } from '../../scripts/supervisor/child-spec.ts';

export type OwnServer = Awaited<ReturnType<typeof startOwnServer>>;

/** A server for one test, which may kill it, suspend it and start it again on the same data. */
export async function startOwnServer(specOf: (dataDir: string) => ChildSpec) {
  const dataDir = mkdtempSync(join(tmpdir(), 'server-'));
  const spec = specOf(dataDir);
  let server: RunningChild;
  const start = async () => {
    server = startChild(spec, join(dataDir, 'server.log'));
    await until(`${spec.name} is ready`, () => spec.isReady().catch(() => false));
  };
  await start();
  return {
    dataDir,
    start,
    signal: (signal: NodeJS.Signals) => process.kill(server.pid, signal),
    async kill() {
      process.kill(server.pid, 'SIGKILL');
      await server.ended;
    },
    async close() {
      await server.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}
