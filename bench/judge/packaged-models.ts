import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { answersOk } from '../../scripts/launchers/http-probe.ts';
import { dieWithParent } from '../../scripts/supervisor/parent-death.ts';
import { findFreePorts } from '../../scripts/supervisor/ports.ts';
import { until } from '../until.ts';

export async function startPackagedModels(): Promise<{ baseUrl: string; stop(): Promise<void> }> {
  const [port = 0] = await findFreePorts(1);
  const entry = join(import.meta.dirname, '..', '..', 'services', 'model-server', 'main.ts');
  const [program, ...args] = dieWithParent([process.execPath, entry], 'SIGTERM');
  const server = spawn(program, args, {
    env: { ...process.env, HOST: '127.0.0.1', PORT: String(port) },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const url = `http://127.0.0.1:${port}`;
  await until('the model server answers', () => answersOk(`${url}/health`).catch(() => false));
  return {
    baseUrl: `${url}/v1`,
    stop: async () => {
      if (server.exitCode !== null) return;
      const exit = once(server, 'exit');
      server.kill('SIGTERM');
      await exit;
    },
  };
}
