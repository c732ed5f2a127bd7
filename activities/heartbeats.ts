import { Context } from '@temporalio/activity';

/** Interval of heartbeats: a third of the shortest heartbeat timeout. */
const BEAT_INTERVAL_MS = 3_000;

/** `signal` aborts on cancellation; `report` stores heartbeat details that the next attempt can read. */
export type ActivityControls = { signal: AbortSignal; report: (details: unknown) => void };

/**
 * Runs an activity and sends heartbeats from a timer, which is also how Temporal delivers a cancellation. A heartbeat proves
 * only that the process is alive; timeouts bound an activity that hangs.
 */
export async function withHeartbeats<T>(work: (controls: ActivityControls) => Promise<T>): Promise<T> {
  const context = Context.current();
  let details: unknown;
  const beat = () => context.heartbeat(details);
  const timer = setInterval(beat, BEAT_INTERVAL_MS);
  try {
    return await work({
      signal: context.cancellationSignal,
      report: (newDetails) => {
        details = newDetails;
        beat();
      },
    });
  } finally {
    clearInterval(timer);
  }
}
