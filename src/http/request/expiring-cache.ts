type Loaded<Value> = { value: Value; expiresAtMs: number };

/**
 * A bounded cache with expiring entries. Concurrent callers share one load; failed loads are not cached. The oldest entry is
 * evicted first.
 */
export type ExpiringCache<Value> = {
  get(key: string, load: () => Promise<Loaded<Value>>): Promise<Value>;
  /** Deletes matching entries, and those that are still loading, because they may have read old data. */
  forget(matches: (value: Value) => boolean): void;
};

type Entry<Value> = { value: Promise<Value>; loaded?: Loaded<Value> };

export function createExpiringCache<Value>(maxEntries: number, now: () => number = Date.now): ExpiringCache<Value> {
  const entries = new Map<string, Entry<Value>>();

  return {
    get(key, load) {
      const found = entries.get(key);
      if (found !== undefined && (found.loaded === undefined || now() < found.loaded.expiresAtMs)) return found.value;
      entries.delete(key);

      const loading = load();
      const entry: Entry<Value> = { value: loading.then(({ value }) => value) };
      const forget = () => {
        if (entries.get(key) === entry) entries.delete(key);
      };
      loading.then((loaded) => {
        entry.loaded = loaded;
      }, forget);
      entries.set(key, entry);
      const oldest = entries.keys().next();
      if (entries.size > maxEntries && !oldest.done) entries.delete(oldest.value);
      return entry.value;
    },

    forget(matches) {
      for (const [key, { loaded }] of entries) {
        if (loaded === undefined || matches(loaded.value)) entries.delete(key);
      }
    },
  };
}
