import type { FairGate } from '#src/ports/fair-gate.ts';

/** Runs at most `size` tasks at once; the others wait their turn in order. */
export function createGate(size: number) {
  let running = 0;
  const waiting: (() => void)[] = [];

  return async <Result>(task: () => Promise<Result>): Promise<Result> => {
    if (running < size) running += 1;
    else await new Promise<void>((proceed) => waiting.push(proceed));
    try {
      return await task();
    } finally {
      // A finished task hands its place to the next one, so that a newcomer cannot slip in between.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}

/**
 * The same for tasks of many owners, whose turns go round: an owner with a thousand tasks delays one of another owner
 * by no more than one.
 * @param options.maxRunningPerOwner all places but one when not given
 * @param options.maxRunningInCrowd of an owner, while others have tasks, too; when not given, the same
 * @param options.bound refuses tasks of an owner that has so many waiting already
 */
export function createFairGate(
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
): FairGate {
  /** In the order of their turns. */
  const owners = new Map<string, { running: number; waiting: (() => void)[] }>();
  let running = 0;

  function proceed(): void {
    const maxRunning = owners.size > 1 ? maxRunningInCrowd : maxRunningPerOwner;
    while (running < size) {
      const next = [...owners].find(([, { waiting, running }]) => waiting.length > 0 && running < maxRunning);
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
