type Loaded<Value> = { value: Value; expiresAtMs: number };

/**
 * A bounded cache whose entries expire. Promises go in at once, so that callers at the same time share one load; a
 * failed load is not kept. The oldest entry makes room for a new one.
 */
export type ExpiringCache<Value> = {
  get(key: string, load: () => Promise<Loaded<Value>>): Promise<Value>;
};

export function createExpiringCache<Value>(maxEntries: number, now: () => number = Date.now): ExpiringCache<Value> {
  const entries = new Map<string, { value: Promise<Value>; expiresAtMs: number }>();

  return {
    get(key, load) {
      const found = entries.get(key);
      if (found !== undefined && now() < found.expiresAtMs) return found.value;
      entries.delete(key);

      const loading = load();
      const entry = { value: loading.then(({ value }) => value), expiresAtMs: Number.POSITIVE_INFINITY };
      const forget = () => {
        if (entries.get(key) === entry) entries.delete(key);
      };
      loading.then(({ expiresAtMs }) => {
        entry.expiresAtMs = expiresAtMs;
      }, forget);
      entries.set(key, entry);
      const oldest = entries.keys().next();
      if (entries.size > maxEntries && !oldest.done) entries.delete(oldest.value);
      return entry.value;
    },
  };
}
