/** Mean with two decimals, computed in hundredths: averaging it again gives the same. Null for an empty list. */
export function meanScore(scores: readonly number[]): number | null {
  if (scores.length === 0) return null;
  const hundredths = scores.reduce((sum, score) => sum + Math.round(score * 100), 0);
  return Math.round(hundredths / scores.length) / 100;
}

export function standardDeviation(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return Math.sqrt(squares / (values.length - 1));
}

/** p-value of the exact two-sided sign test (1 if both counts are 0). The caller excludes ties. */
export function signTestPValue(wins: number, losses: number): number {
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

/** 95 % confidence interval of a mean by Student's t; null for fewer than two values. */
export function meanConfidenceInterval(values: readonly number[]): { mean: number; low: number; high: number } | null {
  if (values.length < 2) return null;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const reach = (studentTQuantile(values.length - 1) * standardDeviation(values)) / Math.sqrt(values.length);
  return { mean, low: mean - reach, high: mean + reach };
}

const confidence = 0.95;

/** Two-sided 95 % quantile of Student's t: 12.706 for 1 degree of freedom, 2.093 for 19. */
export function studentTQuantile(degreesOfFreedom: number): number {
  let low = 0;
  let high = 64;
  // Bisection: after 60 steps the interval is smaller than the precision of a double.
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (withinT(middle, degreesOfFreedom) < confidence) low = middle;
    else high = middle;
  }
  return high;
}

/** P(|T| ≤ t) of Student's t as a finite sum (Abramowitz and Stegun, 26.7.3 and 26.7.4). */
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
