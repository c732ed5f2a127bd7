import { join } from 'node:path';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { answersOk } from './http-probe.ts';
import { serviceEnvironment } from './service-environment.ts';

const ENTRY = join(import.meta.dirname, '..', '..', 'services', 'model-server', 'main.ts');

export type ModelServerOptions = { toolsDir: string; dataDir: string; port: number };

/** The local server of the packaged models, in the shape of the OpenAI API. */
export function modelServer({ toolsDir, dataDir, port }: ModelServerOptions): ChildSpec {
  return {
    name: 'model-server',
    command: [process.execPath, ENTRY],
    env: serviceEnvironment(
      { HOST: '127.0.0.1', PORT: String(port), TOOLS_DIR: toolsDir, DATA_DIR: join(dataDir, 'models') },
      ['LLM_THREADS', 'NODE_COMPILE_CACHE'],
    ),
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 5_000,
    readyTimeoutMs: 60_000,
    isReady: () => answersOk(`http://127.0.0.1:${port}/health`),
  };
}

export function modelServerUrl(port: number): string {
  return `http://127.0.0.1:${port}/v1`;
}
