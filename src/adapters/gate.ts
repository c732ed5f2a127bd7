/**
 * Runs at most `size` tasks at once; the others wait their turn in order. Where nobody can know how many come,
 * `bound` refuses those beyond a queue that is too long to be worth waiting in.
 */
export function createGate(size: number, bound?: { maxWaiting: number; refusal: () => Error }) {
  let running = 0;
  const waiting: (() => void)[] = [];

  return async <Result>(task: () => Promise<Result>): Promise<Result> => {
    if (running < size) running += 1;
    else {
      if (bound !== undefined && waiting.length >= bound.maxWaiting) throw bound.refusal();
      await new Promise<void>((proceed) => waiting.push(proceed));
    }
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
