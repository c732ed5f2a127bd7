import { join } from 'node:path';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { answersOk } from './http-probe.ts';
import { serviceEnvironment } from './service-environment.ts';

const ENTRY = join(import.meta.dirname, '..', '..', 'src', 'codec-server.ts');

export function codecServer({ port, uiPort }: { port: number; uiPort: number }): ChildSpec {
  return {
    name: 'codec-server',
    command: [process.execPath, ENTRY],
    env: serviceEnvironment(
      {
        CODEC_HOST: '127.0.0.1',
        CODEC_PORT: String(port),
        CODEC_UI_ORIGINS: `http://127.0.0.1:${uiPort},http://localhost:${uiPort}`,
      },
      ['TEMPORAL_CODEC_KEY', 'LOG_LEVEL', 'NODE_COMPILE_CACHE'],
    ),
    stopSignal: 'SIGTERM',
    stopTimeoutMs: 5_000,
    readyTimeoutMs: 60_000,
    isReady: () => answersOk(`http://127.0.0.1:${port}/healthz`),
    restartIfSilent: true,
  };
}
