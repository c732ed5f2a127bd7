import { setTimeout as delay } from 'node:timers/promises';
import { type RunningChild, startChild } from './child-process.ts';
import type { ChildSpec } from './child-spec.ts';
import { openDataFolder } from './data-folder.ts';
import { StartFailure } from './start-failure.ts';

const PROBE_INTERVAL_MS = 50;

/** How patiently a child that dies is started again. */
export type RestartPolicy = {
  firstDelayMs: number;
  /** The death that reaches this number within the window ends everything. */
  fatalDeaths: number;
  windowMs: number;
};

// A crash loop shows within seconds, so two restarts tell an accident from a defect.
const DEFAULT_RESTARTS: RestartPolicy = { firstDelayMs: 250, fatalDeaths: 3, windowMs: 60_000 };

export type Supervisor = {
  /** Starts the children side by side; settles when all are ready, rejects like `failed`. */
  start: (specs: readonly ChildSpec[]) => Promise<void>;
  /** Rejects with a StartFailure when a child can not be kept running; otherwise pending. */
  failed: Promise<never>;
  /** Ends the children, those started last first, and gives the data folder back. Safe to call again. */
  stop: () => Promise<void>;
};

/**
 * Keeps a set of processes running on one data folder. A child that dies is started again on the same data and port;
 * one that dies before it was ever ready, or too often, fails the whole, with its last lines.
 * @throws StartFailure when another supervisor owns the folder
 */
export async function openSupervisor(options: {
  dataDir: string;
  log: (line: string) => void;
  restarts?: RestartPolicy;
}): Promise<Supervisor> {
  const { dataDir, log, restarts = DEFAULT_RESTARTS } = options;
  const folder = await openDataFolder(dataDir);
  const stages: { spec: ChildSpec; loop: Promise<void> }[][] = [];
  const running = new Map<ChildSpec, RunningChild>();
  const stopping = new AbortController();
  const failure = Promise.withResolvers<never>();
  // Whoever awaits `start` or `failed` sees the failure; nobody has to.
  failure.promise.catch(() => undefined);
  let stopped: Promise<void> | undefined;

  function track(spec: ChildSpec, child: RunningChild | null): void {
    if (child === null) running.delete(spec);
    else running.set(spec, child);
    folder.record([...running].map(([{ name, stopSignal }, { pid }]) => ({ name, pid, stopSignal })));
  }

  async function keepRunning(spec: ChildSpec, onReady: () => void): Promise<void> {
    let deaths: number[] = [];
    let wasReady = false;
    while (!stopping.signal.aborted) {
      const child = startChild(spec, folder.logPath(spec.name));
      track(spec, child);
      const beginning = await becomesReady(spec, child);
      if (beginning === 'ready' && wasReady) log(`${spec.name} is back.`);
      if (beginning === 'ready') onReady();
      if (beginning === 'late') await child.stop();
      const end = await child.ended;
      track(spec, null);
      if (stopping.signal.aborted) return;

      const reason = beginning === 'late' ? `no answer within ${spec.readyTimeoutMs / 1000} s` : end;
      wasReady ||= beginning === 'ready';
      const now = Date.now();
      deaths = [...deaths.filter((death) => now - death < restarts.windowMs), now];
      const lines = child.lastLines().map((line) => `  ${line}`);
      if (!wasReady)
        throw new StartFailure([`${spec.name} ended before it was ready (${reason}).`, ...lines].join('\n'));
      if (deaths.length >= restarts.fatalDeaths) {
        const times = `${deaths.length} times within ${restarts.windowMs / 1000} s`;
        throw new StartFailure([`${spec.name} ended ${times} (${reason}).`, ...lines].join('\n'));
      }
      log([`${spec.name} ended (${reason}) and is started again. Its last lines:`, ...lines].join('\n'));
      const delayMs = restarts.firstDelayMs * 4 ** (deaths.length - 1);
      await delay(delayMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  }

  async function stopAll(): Promise<void> {
    stopping.abort();
    for (const stage of stages.toReversed()) {
      await Promise.all(stage.map(({ spec }) => running.get(spec)?.stop()));
      await Promise.allSettled(stage.map(({ loop }) => loop));
    }
    folder.release();
  }

  return {
    failed: failure.promise,
    start: async (specs) => {
      const ready = specs.map(() => Promise.withResolvers<void>());
      stages.push(
        specs.map((spec, index) => {
          const loop = keepRunning(spec, () => ready[index]?.resolve());
          loop.catch(failure.reject);
          return { spec, loop };
        }),
      );
      await Promise.race([failure.promise, Promise.all(ready.map(({ promise }) => promise))]);
    },
    stop: () => {
      stopped ??= stopAll();
      return stopped;
    },
  };
}

async function becomesReady(spec: ChildSpec, child: RunningChild): Promise<'ready' | 'ended' | 'late'> {
  let ended = false;
  void child.ended.then(() => {
    ended = true;
  });
  for (const deadline = Date.now() + spec.readyTimeoutMs; !ended && Date.now() < deadline; ) {
    if (await spec.isReady().catch(() => false)) return ended ? 'ended' : 'ready';
    await delay(PROBE_INTERVAL_MS);
  }
  return ended ? 'ended' : 'late';
}
