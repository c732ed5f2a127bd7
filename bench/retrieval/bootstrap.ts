import { seededRandom } from '../search/random.ts';

export type Interval = { mean: number; low: number; high: number };

const resamples = 10_000;

/**
 * Mean difference of two systems on the same questions with its 95 % interval by the paired bootstrap (Efron 1979,
 * percentiles): questions are resampled with replacement, with both systems' values together. The random seed is fixed,
 * so that the interval is reproducible.
 */
export function pairedBootstrap(a: readonly number[], b: readonly number[], seed = 1): Interval {
  const differences = a.map((value, index) => value - (b[index] ?? Number.NaN));
  const random = seededRandom(seed);
  const means = Array.from({ length: resamples }, () => {
    let sum = 0;
    for (let draw = 0; draw < differences.length; draw += 1) {
      sum += differences[random.below(differences.length)] ?? 0;
    }
    return sum / differences.length;
  }).sort((x, y) => x - y);
  const at = (share: number) => means[Math.round(share * (resamples - 1))] ?? Number.NaN;
  return { mean: average(differences), low: at(0.025), high: at(0.975) };
}

export function average(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
