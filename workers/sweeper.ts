import type { Logger } from 'pino';

const INTERVAL_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

type Sweep = { name: string; run: () => Promise<void> };

/** Runs sweeps (periodic maintenance) every second, also while Temporal is down. */
export function startSweeper(
  sweeps: readonly Sweep[],
  logger: Logger,
  onFailure: (sweep: string) => void = () => undefined,
): () => Promise<void> {
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  let round = Promise.resolve();

  async function sweep(): Promise<void> {
    for (const { name, run } of sweeps) {
      if (isStopped) return;
      await run().catch((error: unknown) => {
        onFailure(name);
        logger.warn({ err: error, sweep: name }, 'a sweep failed');
      });
    }
    if (!isStopped) schedule();
  }
  function schedule(): void {
    timer = setTimeout(() => {
      round = sweep();
    }, INTERVAL_MS);
  }

  schedule();
  return async () => {
    isStopped = true;
    clearTimeout(timer);
    await round;
  };
}

/**
 * Limits a sweep to one run at the start of the process and then one a day. After a failure the sweep runs again an
 * hour later.
 */
export function limitToOncePerDay(run: Sweep['run']): Sweep['run'] {
  return limitTo(DAY_MS, run);
}

export function limitToOncePerMinute(run: Sweep['run']): Sweep['run'] {
  return limitTo(MINUTE_MS, run);
}

function limitTo(pauseMs: number, run: Sweep['run']): Sweep['run'] {
  let next = 0;
  return async () => {
    if (Date.now() < next) return;
    next = Date.now() + pauseMs;
    try {
      await run();
    } catch (error) {
      next = Math.min(next, Date.now() + HOUR_MS);
      throw error;
    }
  };
}

/**
 * Runs a long sweep in the background, so that other sweeps do not wait for it. Calls do nothing while the sweep is
 * still running. If it fails, the next call throws its error, which the sweeper then logs.
 */
export function skipWhileStillRunning(run: Sweep['run']): Sweep['run'] {
  let isRunning = false;
  let failure: Error | undefined;
  return async () => {
    const reason = failure;
    failure = undefined;
    if (reason !== undefined) throw reason;
    if (isRunning) return;
    isRunning = true;
    run()
      .catch((error: unknown) => {
        failure = error instanceof Error ? error : new Error(String(error));
      })
      .finally(() => {
        isRunning = false;
      });
  };
}
