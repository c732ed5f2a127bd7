/** So many different questions are remembered at once. */
const MAX_KEYS = 10_000;

/** Asks once for each key in `forMs`, for all who ask meanwhile too. What fails is asked again. */
export function remembered<Arguments extends unknown[], Result>(
  forMs: number,
  ask: (key: string, ...rest: Arguments) => Promise<Result>,
): ((key: string, ...rest: Arguments) => Promise<Result>) & { forget(): void } {
  const known = new Map<string, { result: Promise<Result>; until: number }>();

  function get(key: string, ...rest: Arguments): Promise<Result> {
    const now = performance.now();
    const before = known.get(key);
    if (before !== undefined && before.until > now) return before.result;
    if (known.size >= MAX_KEYS) known.clear();
    const result = ask(key, ...rest);
    known.set(key, { result, until: now + forMs });
    result.catch(() => known.delete(key));
    return result;
  }

  return Object.assign(get, { forget: () => known.clear() });
}
