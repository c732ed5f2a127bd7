import { Context } from '@temporalio/activity';

/** Interval of an activity's heartbeats: a third of the shortest heartbeat timeout. */
const BEAT_INTERVAL_MS = 3_000;

type ActivityControls = {
  /** Aborts when the activity is cancelled. */
  signal: AbortSignal;
  /** Sends a heartbeat with these details, which the Temporal UI and the next attempt see. */
  report: (details: unknown) => void;
  /** Adds these details to the next heartbeat of the timer. */
  note: (details: unknown) => void;
};

/**
 * Runs an activity and sends its heartbeats from a timer; a cancellation arrives in Temporal's response to a heartbeat.
 * Heartbeats prove only that the process is alive: an activity that hangs is ended by its start-to-close timeout.
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
      note: (newDetails) => {
        details = newDetails;
      },
    });
  } finally {
    clearInterval(timer);
  }
}
