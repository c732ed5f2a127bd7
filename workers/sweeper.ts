import type { Logger } from 'pino';

const INTERVAL_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

export type Sweep = { name: string; run: () => Promise<void> };

/**
 * Runs the sweeps once a second, one after the other and never two rounds at a time. A plain timer and not a workflow:
 * it has to work just then when the engine does not.
 * @returns stops it, once the round that is under way has ended
 */
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

/** At the start of the process, and once a day from then on; an hour after it has failed. */
export function daily(run: Sweep['run']): Sweep['run'] {
  return inParts(DAY_MS, () => run().then(() => null));
}

/** At the start of the process, and once an hour from then on. */
export function hourly(run: Sweep['run']): Sweep['run'] {
  return inParts(HOUR_MS, () => run().then(() => null));
}

/** At the start of the process, and once a minute from then on. */
export function everyMinute(run: Sweep['run']): Sweep['run'] {
  return inParts(MINUTE_MS, () => run().then(() => null));
}

/**
 * Once a day, for work that takes long: a part each round so that other sweeps have their turn. `run` gets what it gave
 * for the part before, and gives null after the last. An hour after a part has failed it begins anew.
 */
export function dailyInParts<Place>(run: (after: Place | null) => Promise<Place | null>): Sweep['run'] {
  return inParts(DAY_MS, run);
}

function inParts<Place>(pauseMs: number, run: (after: Place | null) => Promise<Place | null>): Sweep['run'] {
  let next = 0;
  let place: Place | null = null;
  return async () => {
    if (place === null) {
      if (Date.now() < next) return;
      next = Date.now() + pauseMs;
    }
    const after: Place | null = place;
    place = null;
    try {
      place = await run(after);
    } catch (error) {
      next = Math.min(next, Date.now() + HOUR_MS);
      throw error;
    }
  };
}

/**
 * Lets the other sweeps go on meanwhile; while it runs, its turns are left out. What it threw comes up at its next turn.
 */
export function aside(run: Sweep['run']): Sweep['run'] {
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
