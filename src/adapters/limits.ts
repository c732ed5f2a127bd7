import type { FairWorkQueue, RateLimiter } from '#src/ports/load-control.ts';

/**
 * Creates a queue that runs at most `size` tasks at once. Owners with waiting tasks take turns (round robin), so that
 * an owner with a thousand tasks delays a task of another owner by at most one.
 * @param options.maxRunningPerOwner default: one less than `size`
 * @param options.maxRunningInCrowd limit per owner while other owners have tasks; default: `maxRunningPerOwner`
 * @param options.bound rejects further tasks of an owner that already has this many waiting
 */
export function createFairWorkQueue(
  size: number,
  {
    maxRunningPerOwner = Math.max(1, size - 1),
    maxRunningInCrowd = maxRunningPerOwner,
    bound,
  }: {
    maxRunningPerOwner?: number;
    maxRunningInCrowd?: number;
    bound?: { maxWaitingPerOwner: number; refusal: () => Error };
  } = {},
): FairWorkQueue {
  /** Owners in the order of their turns: an owner whose task starts moves to the end of the map. */
  const owners = new Map<string, { running: number; waiting: (() => void)[] }>();
  let running = 0;

  function nextOwner(maxRunning: number) {
    for (const entry of owners) {
      const [, { waiting, running }] = entry;
      if (waiting.length > 0 && running < maxRunning) return entry;
    }
    return undefined;
  }

  function proceed(): void {
    const maxRunning = owners.size > 1 ? maxRunningInCrowd : maxRunningPerOwner;
    while (running < size) {
      const next = nextOwner(maxRunning);
      if (next === undefined) return;
      const [name, owner] = next;
      owners.delete(name);
      owners.set(name, owner);
      running += 1;
      owner.running += 1;
      owner.waiting.shift()?.();
    }
  }

  return async (name, task) => {
    const owner = owners.get(name) ?? { running: 0, waiting: [] };
    if (bound !== undefined && owner.waiting.length >= bound.maxWaitingPerOwner) throw bound.refusal();
    owners.set(name, owner);
    const turn = new Promise<void>((resolve) => owner.waiting.push(resolve));
    proceed();
    await turn;
    try {
      return await task();
    } finally {
      running -= 1;
      owner.running -= 1;
      if (owner.running === 0 && owner.waiting.length === 0) owners.delete(name);
      proceed();
    }
  };
}

const maxWindows = 100_000;

/** Counts requests in the memory of this process, which is enough for limits that only protect this process. */
export function createInMemoryRateLimiter(now: () => number = Date.now): Pick<RateLimiter, 'take'> {
  const windows = new Map<string, { used: number; endsAtMs: number }>();

  return {
    async take(name, subject, { count, seconds }) {
      const key = `${name} ${subject}`;
      const nowMs = now();
      let window = windows.get(key);
      if (window === undefined || window.endsAtMs <= nowMs) {
        windows.delete(key);
        window = { used: 0, endsAtMs: nowMs + seconds * 1_000 };
        windows.set(key, window);
        const oldest = windows.keys().next();
        if (windows.size > maxWindows && !oldest.done) windows.delete(oldest.value);
      }
      window.used += 1;
      return {
        isAllowed: window.used <= count,
        remaining: Math.max(0, count - window.used),
        resetSeconds: Math.ceil((window.endsAtMs - nowMs) / 1_000),
      };
    },
  };
}
