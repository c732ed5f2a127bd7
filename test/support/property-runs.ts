/**
 * Number of cases of a property test. The everyday run has a fixed seed, so that repeating it finds nothing new: it draws
 * a tenth. A run with `--seed` (also `npm run test:all`) draws all.
 */
export function propertyRuns(cases: number): number {
  return process.env.TEST_SEED === undefined ? Math.ceil(cases / 10) : cases;
}

/** A sample of a long list of cases that go through the same code: the second of each five in the everyday run, all with `--seed`. */
export function sampled<T>(cases: readonly T[]): readonly T[] {
  return process.env.TEST_SEED === undefined ? cases.filter((_, index) => index % 5 === 1) : cases;
}
