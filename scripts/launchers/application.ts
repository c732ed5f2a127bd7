import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { answersOk } from './http-probe.ts';

const ROOT = join(import.meta.dirname, '..', '..');

// Both drain by themselves within this: streams and activities in flight may take 20 s, and what hangs is given up by
// the worker itself after 30 s.
const STOP_TIMEOUT_MS = 35_000;
const READY_TIMEOUT_MS = 60_000;
const PROBE_INTERVAL_MS = 50;

/**
 * API and worker. Each is ready by itself: one that is restarted while the other, or Temporal, is away does all that it
 * can meanwhile, and must not be taken for broken.
 */
export function application(apiUrl: string, env: Record<string, string>): ChildSpec[] {
  const shared = {
    env,
    stopSignal: 'SIGTERM',
    stopTimeoutMs: STOP_TIMEOUT_MS,
    readyTimeoutMs: READY_TIMEOUT_MS,
  } as const;
  return [
    {
      name: 'worker',
      command: [process.execPath, join(ROOT, 'workers', 'main.ts')],
      ...shared,
      // It listens nowhere; it ends by itself when it cannot work, and waits by itself for Temporal.
      isReady: async () => true,
    },
    {
      name: 'api',
      command: [process.execPath, join(ROOT, 'src', 'server.ts')],
      ...shared,
      isReady: () => answersOk(`${apiUrl}/healthz`),
      restartIfSilent: true,
    },
  ];
}

/**
 * Settles once API and worker do their work together.
 * @throws StartFailure that names what is not there in time
 */
export async function untilServing(apiUrl: string, timeoutMs = READY_TIMEOUT_MS): Promise<void> {
  const url = `${apiUrl}/readyz`;
  for (const deadline = Date.now() + timeoutMs; Date.now() < deadline; await delay(PROBE_INTERVAL_MS)) {
    if (await answersOk(url).catch(() => false)) return;
  }
  const missing = await missingChecks(url).catch(() => ['api']);
  throw new StartFailure(`Not ready within ${timeoutMs / 1000} s: ${missing.join(', ')}. The logs say more.`);
}

async function missingChecks(url: string): Promise<string[]> {
  const response = await fetch(url, { signal: AbortSignal.timeout(1_000) });
  const { checks } = (await response.json()) as { checks: Record<string, boolean> };
  return Object.keys(checks).filter((name) => !checks[name]);
}
