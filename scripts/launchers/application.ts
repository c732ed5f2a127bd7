import { join } from 'node:path';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { answersOk } from './http-probe.ts';

const ROOT = join(import.meta.dirname, '..', '..');

// Both drain by themselves within this: streams and activities in flight may take 20 s.
const STOP_TIMEOUT_MS = 30_000;

/**
 * API and worker. They are ready together: the API says so only once a worker polls, and a worker that dies before has
 * failed the start.
 */
export function application(apiUrl: string, env: Record<string, string>): ChildSpec[] {
  const shared = {
    env,
    stopSignal: 'SIGTERM',
    stopTimeoutMs: STOP_TIMEOUT_MS,
    readyTimeoutMs: 60_000,
    isReady: () => answersOk(`${apiUrl}/readyz`),
  } as const;
  return [
    { name: 'worker', command: [process.execPath, join(ROOT, 'workers', 'main.ts')], ...shared },
    { name: 'api', command: [process.execPath, join(ROOT, 'src', 'server.ts')], ...shared },
  ];
}
