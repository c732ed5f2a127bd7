import { Context } from '@temporalio/activity';

type Call<Name> = { name: Name; input: unknown };

type RecordedCalls<Activities extends object> = {
  activities: Activities;
  /** All calls so far, in order. */
  calls: Call<keyof Activities>[];
  names: (keyof Activities)[];
  /** Resolves once an activity was called this number of times. */
  untilCalled(name: keyof Activities, times?: number): Promise<void>;
};

/**
 * Records the calls of stub activities.
 * @param onCall is called before the activity runs
 */
export function recordCalls<Activities extends object>(
  stubs: Activities,
  onCall: (call: Call<keyof Activities>) => void = () => undefined,
): RecordedCalls<Activities> {
  const calls: Call<keyof Activities>[] = [];
  const names: (keyof Activities)[] = [];
  const waiting = new Set<() => void>();

  const recorded = ([key, work]: [string, (input: unknown) => unknown]) => {
    const name = key as keyof Activities;
    const activity = (input: unknown) => {
      calls.push({ name, input });
      names.push(name);
      onCall({ name, input });
      for (const check of waiting) check();
      return work(input);
    };
    return [name, activity] as const;
  };

  return {
    activities: Object.fromEntries(Object.entries(stubs).map(recorded)) as Activities,
    calls,
    names,
    untilCalled: (name, times = 1) =>
      new Promise((resolve) => {
        const check = () => {
          if (names.filter((called) => called === name).length < times) return;
          waiting.delete(check);
          resolve();
        };
        waiting.add(check);
        check();
      }),
  };
}

/** Throws in the first attempt of an activity, so that Temporal retries it. */
export function failFirstAttempt(fault: Error): void {
  if (Context.current().info.attempt === 1) throw fault;
}

/** Waits until the activity is cancelled. Heartbeats often, because a heartbeat response delivers the cancellation. */
export async function untilCancelled(): Promise<never> {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(), HEARTBEAT_INTERVAL_MS);
  try {
    return await context.cancelled;
  } finally {
    clearInterval(timer);
  }
}

const HEARTBEAT_INTERVAL_MS = 20;
