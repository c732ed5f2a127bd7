/**
 * The mean to two decimals, computed in hundredths, so that whoever averages the same stored scores gets the same
 * figure. Null of nothing.
 */
export function meanScore(scores: readonly number[]): number | null {
  if (scores.length === 0) return null;
  const hundredths = scores.reduce((sum, score) => sum + Math.round(score * 100), 0);
  return Math.round(hundredths / scores.length) / 100;
}

/** How far values lie apart, as a sample (n − 1); 0 of less than two. */
export function standardDeviation(values: readonly number[]): number {
  if (values.length < 2) return 0;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return Math.sqrt(squares / (values.length - 1));
}
