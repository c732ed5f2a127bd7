import { join } from 'node:path';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { answersOk } from './http-probe.ts';
import { serviceEnvironment } from './service-environment.ts';

const ENTRY = join(import.meta.dirname, '..', '..', 'services', 'qdrant-facade', 'main.py');

export type QdrantFacadeOptions = { toolsDir: string; dataDir: string; port: number; apiKey?: string | null };

/** Runs Qdrant's local engine behind a subset of Qdrant's REST API. The vectors are stored in the data folder. */
export function qdrantFacade({ toolsDir, dataDir, port, apiKey = null }: QdrantFacadeOptions): ChildSpec {
  return {
    name: 'qdrant',
    // `-B` keeps Python from writing bytecode beside its sources.
    command: ['python3', '-B', ENTRY],
    env: serviceEnvironment({
      HOST: '127.0.0.1',
      PORT: String(port),
      TOOLS_DIR: toolsDir,
      DATA_DIR: join(dataDir, 'qdrant'),
      ...(apiKey !== null && { API_KEY: apiKey }),
    }),
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 5_000,
    readyTimeoutMs: 60_000,
    isReady: () => answersOk(`${qdrantUrl(port)}/readyz`),
    restartIfSilent: true,
  };
}

export function qdrantUrl(port: number): string {
  return `http://127.0.0.1:${port}`;
}
