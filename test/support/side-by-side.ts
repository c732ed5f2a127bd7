/**
 * At most `limit` tasks at a time, in the order in which they are given.
 * @returns starts a task as soon as there is room; what it gives can be awaited late, so that each is a test of its own
 */
export function sideBySide(limit: number): <T>(task: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return (task) => {
    const result = (async () => {
      if (running >= limit) await new Promise<void>((start) => waiting.push(start));
      else running += 1;
      try {
        return await task();
      } finally {
        const next = waiting.shift();
        // The place is handed over, or given up.
        if (next === undefined) running -= 1;
        else next();
      }
    })();
    result.catch(() => undefined);
    return result;
  };
}
