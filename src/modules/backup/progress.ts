const EVERY_MS = 5_000;

/** Says how far something is, now and then. */
export function createProgress(note: (line: string) => void, line: (count: number) => string) {
  let count = 0;
  let saidAt = performance.now();
  return {
    add(more: number): void {
      count += more;
      if (performance.now() - saidAt < EVERY_MS) return;
      saidAt = performance.now();
      note(line(count));
    },
  };
}

/** In the order in which they are; some at once. */
export async function inParts<Item>(
  items: readonly Item[],
  atOnce: number,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  for (let start = 0; start < items.length; start += atOnce) {
    await Promise.all(items.slice(start, start + atOnce).map(work));
  }
}
