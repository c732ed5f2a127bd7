import { Context } from '@temporalio/activity';

/** A third of the shortest heartbeat timeout. */
const BEAT_INTERVAL_MS = 3_000;

/** What a step gets from the place where it runs: when to stop, and whom to tell how far it is. */
export type StepContext = { signal: AbortSignal; report: (details: unknown) => void };

/**
 * Runs one step and tells the engine all the while that its process lives; this is also how a cancellation arrives.
 * Hanging steps are bounded by their own limits: the beat says nothing about progress.
 */
export async function heartbeating<T>(work: (step: StepContext) => Promise<T>): Promise<T> {
  const context = Context.current();
  let details: unknown;
  const beat = () => context.heartbeat(details);
  const timer = setInterval(beat, BEAT_INTERVAL_MS);
  try {
    return await work({
      signal: context.cancellationSignal,
      report: (news) => {
        details = news;
        beat();
      },
    });
  } finally {
    clearInterval(timer);
  }
}
