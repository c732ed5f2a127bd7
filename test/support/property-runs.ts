/**
 * Number of cases of a property test. The everyday run has a fixed seed, so that repeating it finds nothing new: it draws
 * a tenth. A run with `--seed` (also `npm run test:all`) draws all.
 */
export function propertyRuns(cases: number): number {
  return process.env.TEST_SEED === undefined ? Math.ceil(cases / 10) : cases;
}
