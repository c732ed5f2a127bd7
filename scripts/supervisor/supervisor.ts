import { setTimeout as delay } from 'node:timers/promises';
import { type RunningChild, startChild } from './child-process.ts';
import type { ChildSpec } from './child-spec.ts';
import { openDataFolder } from './data-folder.ts';
import { StartFailure } from './start-failure.ts';
import { createDiskWatch, DEFAULT_WATCH, type WatchPolicy, watchChild } from './watch.ts';

const PROBE_INTERVAL_MS = 50;

export type RestartPolicy = {
  firstDelayMs: number;
  /** The number of ends within the window that makes the supervisor fail. */
  fatalDeaths: number;
  windowMs: number;
};

// A crash loop shows within seconds, so two restarts distinguish a single crash from a defect.
const DEFAULT_RESTARTS: RestartPolicy = { firstDelayMs: 250, fatalDeaths: 3, windowMs: 60_000 };

export type Supervisor = {
  /** Starts the children in parallel. Resolves when all are ready, rejects like `failed`. */
  start: (specs: readonly ChildSpec[], onReady?: (name: string) => void) => Promise<void>;
  logPath: (name: string) => string;
  /** Rejects with a StartFailure if a child cannot be kept running; otherwise stays pending. */
  failed: Promise<never>;
  /** Stops the children in reverse order of their start, and releases the data folder. Can be called repeatedly. */
  stop: () => Promise<void>;
};

/**
 * Keeps a set of processes running on one data folder. A child that ends is restarted on the same data and port. The
 * supervisor fails if a child ends before it was ready, or too often; the error has the child's last lines. Logs
 * hanging children and a full disk, and rotates logs.
 * @throws StartFailure if another supervisor owns the folder
 */
export async function openSupervisor(options: {
  dataDir: string;
  log: (line: string) => void;
  restarts?: RestartPolicy;
  watch?: WatchPolicy;
}): Promise<Supervisor> {
  const { dataDir, log, restarts = DEFAULT_RESTARTS, watch = DEFAULT_WATCH } = options;
  const folder = await openDataFolder(dataDir);
  const stages: { spec: ChildSpec; loop: Promise<void> }[][] = [];
  const running = new Map<ChildSpec, RunningChild>();
  const stopping = new AbortController();
  const failure = Promise.withResolvers<never>();
  // The rejection reaches callers that await `start` or `failed`; without such a caller it must not count as unhandled.
  failure.promise.catch(() => undefined);
  let stopped: Promise<void> | undefined;
  const lookAtDisk = createDiskWatch(dataDir, watch, log);
  const upkeep = setInterval(() => {
    for (const { name } of running.keys()) folder.boundLog(name);
    lookAtDisk().catch(() => undefined);
  }, watch.intervalMs);

  function track(spec: ChildSpec, child: RunningChild | null): void {
    if (child === null) running.delete(spec);
    else running.set(spec, child);
    folder.record([...running].map(([{ name, stopSignal }, { pid }]) => ({ name, pid, stopSignal })));
  }

  async function keepRunning(spec: ChildSpec, onReady: () => void): Promise<void> {
    let deaths: number[] = [];
    let wasReady = false;
    while (!stopping.signal.aborted) {
      folder.boundLog(spec.name);
      const child = startChild(spec, folder.logPath(spec.name));
      track(spec, child);
      const beginning = await becomesReady(spec, child);
      if (beginning === 'ready' && wasReady) log(`${spec.name} is running again.`);
      if (beginning === 'ready') {
        onReady();
        void watchChild(spec, child, { policy: watch, log });
      }
      if (beginning === 'late') await child.stop();
      const end = await child.ended;
      track(spec, null);
      if (stopping.signal.aborted) return;

      const reason = beginning === 'late' ? `no answer within ${spec.readyTimeoutMs / 1000} s` : end;
      wasReady ||= beginning === 'ready';
      const now = Date.now();
      deaths = [...deaths.filter((death) => now - death < restarts.windowMs), now];
      const lines = child.lastLines().map((line) => `  ${line}`);
      const fatal = (how: string) => {
        const where = `The end of ${folder.logPath(spec.name)}:`;
        return new StartFailure([`${spec.name} ended ${how} (${reason}). ${where}`, ...lines].join('\n'));
      };
      if (!wasReady) throw fatal('before it was ready');
      if (deaths.length >= restarts.fatalDeaths) {
        throw fatal(`${deaths.length} times within ${restarts.windowMs / 1000} s`);
      }
      log([`${spec.name} ended (${reason}) and is restarted. Its last log lines:`, ...lines].join('\n'));
      const delayMs = restarts.firstDelayMs * 4 ** (deaths.length - 1);
      await delay(delayMs, undefined, { signal: stopping.signal }).catch(() => undefined);
    }
  }

  async function stopAll(): Promise<void> {
    stopping.abort();
    clearInterval(upkeep);
    for (const stage of stages.toReversed()) {
      await Promise.all(stage.map(({ spec }) => running.get(spec)?.stop()));
      await Promise.allSettled(stage.map(({ loop }) => loop));
    }
    folder.release();
  }

  return {
    failed: failure.promise,
    logPath: folder.logPath,
    start: async (specs, onReady) => {
      const ready = specs.map(() => Promise.withResolvers<void>());
      stages.push(
        specs.map((spec, index) => {
          const loop = keepRunning(spec, () => ready[index]?.resolve());
          void ready[index]?.promise.then(() => onReady?.(spec.name));
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
