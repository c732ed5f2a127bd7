/**
 * How many cases a property test draws. The everyday run draws the same values each time, so that a fifth of the cases
 * finds what they all would find again; a run with a seed of its own (`npm run test:all`, `--seed N`) draws them all.
 */
export function propertyRuns(cases: number): number {
  return process.env.TEST_SEED === undefined ? Math.ceil(cases / 5) : cases;
}
