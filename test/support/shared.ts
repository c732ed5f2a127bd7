/** What all tests of a process share: started for the first that asks, and ended after the last test. */
export function shared<T extends { close(): Promise<void> }>(start: () => Promise<T>): () => Promise<T> {
  let started: Promise<T> | undefined;
  // A root hook, as this is called where a module is loaded.
  after(async function closeShared() {
    await (await started)?.close();
  });
  return () => {
    started ??= start();
    return started;
  };
}
