import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { applicationProcesses } from '../../scripts/launchers/application.ts';
import { serviceEnvironment } from '../../scripts/launchers/service-environment.ts';
import { startChild } from '../../scripts/supervisor/child-process.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import type { Stack } from './stack.ts';
import { until } from './until.ts';

export type ServiceProcess = Awaited<ReturnType<typeof startProcess>>;

let started = 0;

/** A worker process that is a part of a stack; settles once it polls. */
export function startWorkerProcess(stack: Pick<Stack, 'settings'>, settings: Record<string, string> = {}) {
  return startProcess('worker', { ...stack.settings, LOG_LEVEL: 'info', ...settings }, 'workers are polling');
}

/** An API process that is a part of a stack; settles once it answers. */
export async function startApiProcess(
  stack: Pick<Stack, 'settings'>,
  settings: Record<string, string> = {},
): Promise<ServiceProcess & { baseUrl: string }> {
  const [port] = await findFreePorts(1);
  const env = { ...stack.settings, LOG_LEVEL: 'info', ...settings, PORT: String(port) };
  const baseUrl = `http://127.0.0.1:${port}`;
  const api = await startProcess('api', env, 'the API is listening');
  return { ...api, baseUrl };
}

async function startProcess(name: 'worker' | 'api', settings: Record<string, string>, readyLine: string) {
  const env = serviceEnvironment(settings, ['NODE_COMPILE_CACHE']);
  const spec = applicationProcesses('', env).find((candidate) => candidate.name === name);
  if (spec === undefined) throw new Error(`there is no process ${name}`);
  started += 1;
  const logPath = join(settings.DATA_DIR ?? '', `${name}-${started}.log`);
  const child = startChild(spec, logPath);
  const log = () => readFileSync(logPath, 'utf8');

  const early = child.ended.then((end) => {
    throw new Error(`${name} ended before it was ready (${end}):\n${log()}`);
  });
  // Once it is ready its end is the business of the test.
  early.catch(() => undefined);
  try {
    await Promise.race([until(`${name} is ready`, async () => log().includes(readyLine)), early]);
  } catch (error) {
    await child.stop();
    throw error;
  }
  const { pid, ended, stop } = child;
  return {
    ...{ pid, ended, stop },
    /** Sends SIGKILL, and settles when the process has ended. */
    kill: async (): Promise<void> => {
      process.kill(pid, 'SIGKILL');
      await ended;
    },
    log,
  };
}
