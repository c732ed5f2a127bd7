import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { answersOk } from '../../scripts/launchers/http-probe.ts';
import { dieWithParent } from '../../scripts/supervisor/parent-death.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { until } from '../until.ts';

export type Lag = { p50Ms: number; p99Ms: number };

export type MeasuredServer = {
  baseUrl: string;
  lagDuring<T>(work: () => Promise<T>): Promise<{ result: T; lag: Lag }>;
  stop(): Promise<void>;
};

/** Starts the model server in its own process, with a probe of its event loop. */
export async function startMeasuredServer(options: { toolsDir: string; threads: number }): Promise<MeasuredServer> {
  const [port = 0] = await findFreePorts(1);
  const probe = new URL('./event-loop-probe.ts', import.meta.url).href;
  const entry = join(import.meta.dirname, '..', '..', 'services', 'model-server', 'main.ts');
  const [program, ...args] = dieWithParent([process.execPath, '--import', probe, entry], 'SIGTERM');
  const server = spawn(program, args, {
    env: {
      ...process.env,
      HOST: '127.0.0.1',
      PORT: String(port),
      TOOLS_DIR: options.toolsDir,
      LLM_THREADS: String(options.threads),
    },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  await until('the model server answers', () => answersOk(`http://127.0.0.1:${port}/health`).catch(() => false));

  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    async lagDuring(work) {
      server.send('begin');
      const result = await work();
      server.send('report');
      const [lag] = await once(server, 'message');
      return { result, lag: lag as Lag };
    },
    stop: () => stop(server),
  };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const exit = once(child, 'exit');
  child.kill('SIGTERM');
  await exit;
}
