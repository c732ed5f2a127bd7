/**
 * Starts the tasks in order and at most `limit` of them at a time.
 * @returns one promise for each, so that each can be a test of its own
 */
export function sideBySide<T>(limit: number, tasks: readonly (() => Promise<T>)[]): Promise<T>[] {
  const waiting: (() => void)[] = [];
  let running = 0;
  const results = tasks.map(async (task) => {
    if (running >= limit) await new Promise<void>((start) => waiting.push(start));
    running += 1;
    try {
      return await task();
    } finally {
      running -= 1;
      waiting.shift()?.();
    }
  });
  // The test that asks for a result sees its failure, however late it asks.
  for (const result of results) result.catch(() => undefined);
  return results;
}
