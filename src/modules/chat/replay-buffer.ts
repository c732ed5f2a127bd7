/**
 * Items of one writer for any number of readers, each of whom starts at the first item and waits for the next until
 * the writer closes. A slow or vanished reader never holds up the writer.
 */
export function createReplayBuffer<T>() {
  const items: T[] = [];
  let closed = false;
  let news = Promise.withResolvers<void>();

  function announce(): void {
    const told = news;
    news = Promise.withResolvers<void>();
    told.resolve();
  }

  return {
    push(item: T): void {
      items.push(item);
      announce();
    },
    close(): void {
      closed = true;
      announce();
    },
    async *read(): AsyncGenerator<T, void, undefined> {
      for (let next = 0; ; next++) {
        while (next >= items.length) {
          if (closed) return;
          await news.promise;
        }
        yield items[next] as T;
      }
    },
  };
}
