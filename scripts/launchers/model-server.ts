import { join } from 'node:path';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { answersOk } from './http-probe.ts';
import { serviceEnvironment } from './service-environment.ts';

const ENTRY = join(import.meta.dirname, '..', '..', 'services', 'model-server', 'main.ts');

export type ModelServerOptions = {
  toolsDir: string;
  port: number;
  modelDir?: string | null;
  preloadChat?: boolean;
};

export function modelServer(options: ModelServerOptions): ChildSpec {
  const { toolsDir, port, modelDir = null, preloadChat = false } = options;
  return {
    name: 'model-server',
    command: [process.execPath, ENTRY],
    env: serviceEnvironment(
      {
        HOST: '127.0.0.1',
        PORT: String(port),
        TOOLS_DIR: toolsDir,
        ...(modelDir !== null && { MODEL_DIR: modelDir }),
        PRELOAD_CHAT: String(preloadChat),
      },
      ['LLM_THREADS', 'NODE_COMPILE_CACHE'],
    ),
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 5_000,
    readyTimeoutMs: 60_000,
    isReady: () => answersOk(`http://127.0.0.1:${port}/health`),
    restartIfSilent: true,
  };
}

export function modelServerUrl(port: number): string {
  return `http://127.0.0.1:${port}/v1`;
}
