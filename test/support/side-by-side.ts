import pLimit from 'p-limit';

/**
 * At most `limit` tasks at a time, in the order in which they are given.
 * @returns starts a task as soon as there is room; what it gives can be awaited late, so that each is a test of its own
 */
export function sideBySide(limit: number): <T>(task: () => Promise<T>) => Promise<T> {
  const inTurn = pLimit(limit);
  return (task) => {
    const result = inTurn(task);
    result.catch(() => undefined);
    return result;
  };
}
