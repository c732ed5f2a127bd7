/** Runs a task for each item, at most `width` of them at once. @returns their results in the order of the items */
export async function inParallel<Item, Result>(
  width: number,
  items: readonly Item[],
  task: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results = new Array<Result>(items.length);
  // One iterator for all: each takes the next item as soon as it is free.
  const waiting = items.entries();
  const work = async () => {
    for (const [index, item] of waiting) results[index] = await task(item);
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, work));
  return results;
}
