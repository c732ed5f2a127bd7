/** The same numbers for the same seed, so that a random case can be run again. */
export type Random = {
  /** 0 to just below 1. */
  next(): number;
  /** Whole numbers from `from` to `to`, both included. */
  between(from: number, to: number): number;
  pick<T>(from: readonly [T, ...T[]]): T;
};

/** Mulberry32, a generator of 32 bits of state. */
export function seeded(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (from: number, to: number) => from + Math.floor(next() * (to - from + 1));
  return { next, between, pick: (from) => from[between(0, from.length - 1)] ?? from[0] };
}

/** Of this run of the tests: that of the row of faults, else that of `--seed`, else 1. */
export const runSeed = Number(process.env.FAULT_SEED ?? process.env.TEST_SEED ?? 1);

/**
 * Number of cases of a property test. The everyday run has a fixed seed, so that repeating it finds nothing new: it draws
 * a tenth. A run with `--seed` (also `npm run test:all`) draws all.
 */
export const propertyRuns = (cases: number): number =>
  process.env.TEST_SEED === undefined ? Math.ceil(cases / 10) : cases;
