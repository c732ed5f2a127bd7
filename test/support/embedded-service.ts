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
  const free = await findFreePorts(PORTS.length);
  const ports = Object.fromEntries(PORTS.map((name, index) => [name, String(free[index])]));
  const settings = {
    DATA_DIR: dataDir,
    TOOLS_DIR: testServices().toolsDir,
    ...(ports as Record<(typeof PORTS)[number], string>),
  };
  const started = new Set<ChildProcess>();

  /** @returns `ready` rejects with the output if the service ends before it is ready */
  function start(changes: Record<string, string> = {}, args: string[] = []) {
    const env = { PATH: process.env.PATH, ...settings, ...changes };
    const child = spawn(process.execPath, [START, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    started.add(child);
    const ready = Promise.withResolvers<void>();
    ready.promise.catch(() => undefined);
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (part) => {
        output += part;
        if (output.includes('is ready')) ready.resolve();
      });
    }
    const ended = once(child, 'close').then(([code = null]: (number | null)[]) => {
      started.delete(child);
      ready.reject(new Error(output));
      return { code, output };
    });
    return { child, ended, ready: ready.promise };
  }

  return {
    settings,
    apiUrl: `http://127.0.0.1:${settings.PORT}`,
    start,
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
