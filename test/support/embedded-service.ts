import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { testServices } from './services.ts';

const START = join(import.meta.dirname, '..', '..', 'scripts', 'start.ts');
const PORTS = [
  ...(['PORT', 'WORKER_PORT', 'POSTGRES_PORT', 'TEMPORAL_PORT', 'TEMPORAL_UI_PORT'] as const),
  ...(['MODEL_SERVER_PORT', 'QDRANT_PORT', 'IDENTITY_PROVIDER_PORT', 'CODEC_PORT'] as const),
] as const;

export type EmbeddedService = Awaited<ReturnType<typeof createEmbeddedService>>;

/** What `npm start` runs, on a data folder and ports of its own that every start uses again. */
export async function createEmbeddedService() {
  const dataDir = mkdtempSync(join(tmpdir(), 'start-'));
  const { toolsDir } = testServices();
  const free = await findFreePorts(PORTS.length);
  const ports = Object.fromEntries(PORTS.map((name, index) => [name, free[index]])) as Record<
    (typeof PORTS)[number],
    number
  >;
  const started = new Set<ChildProcess>();

  /**
   * @param changes settings beyond those
   * @param args of the command line
   * @returns `ready` rejects with the output when it ends before it was ready
   */
  function start(changes: Record<string, string> = {}, args: string[] = []) {
    const own = Object.fromEntries(PORTS.map((name) => [name, String(ports[name])]));
    const env = { PATH: process.env.PATH, DATA_DIR: dataDir, TOOLS_DIR: toolsDir, ...own, ...changes };
    const child = spawn(process.execPath, [START, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    started.add(child);
    const says = Promise.withResolvers<void>();
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (part) => {
        output += part;
        if (output.includes('is ready')) says.resolve();
      });
    }
    const ended = once(child, 'close').then(([code]: (number | null)[]) => {
      started.delete(child);
      says.reject(new Error(output));
      return { code: code ?? null, output };
    });
    says.promise.catch(() => undefined);
    return { child, ended, ready: says.promise };
  }

  return {
    ...{ dataDir, toolsDir, ports, start },
    /** The processes that it has started. */
    children: (): { pid: number; start: string }[] =>
      JSON.parse(readFileSync(join(dataDir, 'run', 'children.json'), 'utf8')),
    close: async () => {
      for (const child of started) child.kill('SIGTERM');
      await Promise.all([...started].map((child) => child.exitCode ?? once(child, 'exit')));
      rmSync(dataDir, { recursive: true, maxRetries: 3 });
    },
  };
}
