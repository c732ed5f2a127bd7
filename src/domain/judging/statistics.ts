import { standardDeviation } from './averages.ts';

/**
 * How likely chance alone decides cases at least as one-sidedly: the two-sided sign test, exact. Ties are left out
 * before. 1 without a decided case.
 */
export function signTest(wins: number, losses: number): number {
  const decided = wins + losses;
  const rarer = Math.min(wins, losses);
  let tail = 0;
  let ways = 1;
  for (let count = 0; count <= rarer; count++) {
    tail += ways;
    ways = (ways * (decided - count)) / (count + 1);
  }
  return Math.min(1, (2 * tail) / 2 ** decided);
}

/** The 95 % interval of a mean by Student's t; of paired differences when the values are such. Null of less than two. */
export function meanInterval(values: readonly number[]): { mean: number; low: number; high: number } | null {
  if (values.length < 2) return null;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const reach = (studentQuantile(values.length - 1) * standardDeviation(values)) / Math.sqrt(values.length);
  return { mean, low: mean - reach, high: mean + reach };
}

const confidence = 0.95;

/** The t within which Student's distribution of whole degrees of freedom lies with 95 %: 12.706 of 1, 2.093 of 19. */
export function studentQuantile(degreesOfFreedom: number): number {
  let low = 0;
  let high = 64;
  // Each step halves the bracket: 60 of them leave nothing of it that a double could tell apart.
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (withinT(middle, degreesOfFreedom) < confidence) low = middle;
    else high = middle;
  }
  return high;
}

/** P(|T| ≤ t), as finite sums: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4. */
function withinT(t: number, degreesOfFreedom: number): number {
  const angle = Math.atan(t / Math.sqrt(degreesOfFreedom));
  const squaredCosine = Math.cos(angle) ** 2;
  const isOdd = degreesOfFreedom % 2 === 1;
  let term = isOdd ? Math.cos(angle) : 1;
  let sum = 0;
  for (let k = isOdd ? 1 : 0; k <= degreesOfFreedom - 2; k += 2) {
    sum += term;
    term *= ((k + 1) / (k + 2)) * squaredCosine;
  }
  return isOdd ? (2 / Math.PI) * (angle + Math.sin(angle) * sum) : Math.sin(angle) * sum;
}
