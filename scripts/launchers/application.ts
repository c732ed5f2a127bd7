import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ChildSpec } from '../supervisor/child-spec.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { answersOk } from './http-probe.ts';

const ROOT = join(import.meta.dirname, '..', '..');

// API and worker shut down gracefully within this time: requests and activities in flight may take 20 to 25 s, and the
// worker aborts hanging activities after 30 s.
const STOP_TIMEOUT_MS = 35_000;
/**
 * Keeps short-lived objects of the worker in 24 MB instead of 96 MB. After 200 documents its process takes 310 MB
 * instead of 430 MB, for the same CPU time.
 */
const WORKER_NEW_SPACE = '--max-semi-space-size=8';
const WARN = 40;
const READY_TIMEOUT_MS = 60_000;
const PROBE_INTERVAL_MS = 50;
const TELL_INTERVAL_MS = 10_000;

/**
 * The processes of API and worker. Their readiness does not depend on each other or on Temporal: a process that is
 * restarted during an outage must not count as failed.
 */
export function applicationProcesses(apiUrl: string, env: Record<string, string>): ChildSpec[] {
  const shared = {
    env,
    stopSignal: 'SIGTERM',
    stopTimeoutMs: STOP_TIMEOUT_MS + 1_000 * (Number(env.SHUTDOWN_DELAY_SECONDS) || 0),
    readyTimeoutMs: READY_TIMEOUT_MS,
  } as const;
  const { JWT_PRIVATE_KEY: _key, JWT_PRIVATE_KEY_FILE: _file, ...ofTheWorker } = env;
  return [
    {
      name: 'worker',
      command: [process.execPath, WORKER_NEW_SPACE, join(ROOT, 'workers', 'main.ts')],
      ...shared,
      env: ofTheWorker,
      // The worker exits by itself if it cannot work, and reconnects to Temporal by itself, so the supervisor does not
      // probe it.
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
 * Resolves once API and worker serve requests together.
 * @throws StartFailure that names the failed readiness checks and the last error in the log
 */
export async function waitUntilServing(
  apiUrl: string,
  {
    say,
    logPath,
    timeoutMs = READY_TIMEOUT_MS,
  }: {
    say: (line: string) => void;
    logPath: (name: string) => string;
    timeoutMs?: number;
  },
): Promise<void> {
  const url = `${apiUrl}/readyz`;
  const whatIsMissing = () => missingChecks(url).catch(() => ['api']);
  let toldAt = Date.now();
  for (const deadline = Date.now() + timeoutMs; Date.now() < deadline; await delay(PROBE_INTERVAL_MS)) {
    if (await answersOk(url).catch(() => false)) return;
    if (Date.now() - toldAt < TELL_INTERVAL_MS) continue;
    toldAt = Date.now();
    say(`  still waiting for: ${(await whatIsMissing()).join(', ')}`);
  }
  const missing = await whatIsMissing();
  const log = logPath(missing.includes('workers') ? 'worker' : 'api');
  const error = lastErrorInLog(readFileSync(log, 'utf8'));
  throw new StartFailure(
    `The service was not ready within ${timeoutMs / 1000} s. Failed checks: ${missing.join(', ')}. ${error === null ? `See ${log}.` : `The last error in ${log}: ${error}`}`,
  );
}

export function lastErrorInLog(log: string): string | null {
  for (const line of log.trimEnd().split('\n').reverse()) {
    try {
      const { level, msg, err } = JSON.parse(line) as { level: number; msg?: string; err?: { message?: string } };
      if (level >= WARN) return [msg, err?.message].filter(Boolean).join(': ');
    } catch {
      // The line is not JSON: a library wrote it, or the process ended while writing.
    }
  }
  return null;
}

async function missingChecks(url: string): Promise<string[]> {
  const response = await fetch(url, { signal: AbortSignal.timeout(1_000) });
  const { checks } = (await response.json()) as { checks: Record<string, boolean> };
  return Object.keys(checks).filter((name) => !checks[name]);
}
