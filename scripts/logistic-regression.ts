export type Sample = { features: readonly number[]; isPositive: boolean };

/** The probability σ(Σ coefficient · feature + intercept); the intercept is the last coefficient. */
export function sigmoid(coefficients: readonly number[], features: readonly number[]): number {
  const sum = [...features, 1].reduce((total, x, i) => total + x * (coefficients[i] ?? 0), 0);
  return 1 / (1 + Math.exp(-sum));
}

/**
 * Fits a logistic regression by Newton's method. Both classes have the same total weight. The intercept is the last
 * coefficient.
 */
export function fitLogistic(samples: readonly Sample[]): number[] {
  const positives = samples.filter((sample) => sample.isPositive).length;
  const weightOf = (sample: Sample) => 0.5 / (sample.isPositive ? positives : samples.length - positives);
  const size = (samples[0]?.features.length ?? 0) + 1;
  let coefficients = new Array<number>(size).fill(0);
  for (let iteration = 0; iteration < 25; iteration++) {
    const gradient = new Array<number>(size).fill(0);
    const curvature = Array.from({ length: size }, () => new Array<number>(size).fill(0));
    for (const sample of samples) {
      const x = [...sample.features, 1];
      const p = sigmoid(coefficients, sample.features);
      const weight = weightOf(sample);
      x.forEach((xi, i) => {
        gradient[i] = (gradient[i] ?? 0) + weight * ((sample.isPositive ? 1 : 0) - p) * xi;
        const row = curvature[i];
        if (row)
          x.forEach((xj, j) => {
            row[j] = (row[j] ?? 0) + weight * p * (1 - p) * xi * xj;
          });
      });
    }
    const step = solve(curvature, gradient);
    coefficients = coefficients.map((value, i) => value + (step[i] ?? 0));
    if (step.every((value) => Math.abs(value) < 1e-9)) break;
  }
  return coefficients;
}

/**
 * Area under the ROC curve: how often a positive sample scores above a negative one (Mann-Whitney U); ties count half.
 */
export function areaUnderCurve(scored: readonly { score: number; isPositive: boolean }[]): number {
  const sorted = [...scored].sort((a, b) => a.score - b.score);
  let rankSum = 0;
  for (let start = 0; start < sorted.length; ) {
    let end = start;
    while (end < sorted.length && sorted[end]?.score === sorted[start]?.score) end++;
    rankSum += sorted.slice(start, end).filter((sample) => sample.isPositive).length * ((start + 1 + end) / 2);
    start = end;
  }
  const positives = scored.filter((sample) => sample.isPositive).length;
  return (rankSum - (positives * (positives + 1)) / 2) / (positives * (scored.length - positives));
}

/** Expected calibration error over ten bins, with both classes weighted equally. */
export function calibrationError(scored: readonly { score: number; isPositive: boolean }[]): number {
  const positives = scored.filter((sample) => sample.isPositive).length;
  const bins = Array.from({ length: 10 }, () => ({ score: 0, positive: 0, weight: 0 }));
  for (const { score, isPositive } of scored) {
    const bin = bins[Math.min(9, Math.floor(score * 10))];
    const weight = 0.5 / (isPositive ? positives : scored.length - positives);
    if (!bin) continue;
    bin.score += weight * score;
    bin.positive += isPositive ? weight : 0;
    bin.weight += weight;
  }
  return bins.reduce((sum, bin) => sum + Math.abs(bin.score - bin.positive), 0);
}

/** Solves a linear system by Gaussian elimination with partial pivoting. */
function solve(matrix: readonly (readonly number[])[], vector: readonly number[]): number[] {
  const rows = matrix.map((row, i) => [...row, vector[i] ?? 0]);
  const at = (i: number, j: number) => rows[i]?.[j] ?? 0;
  for (let i = 0; i < rows.length; i++) {
    const pivot = rows.findIndex(
      (_, k) => k >= i && rows.slice(i).every((_row, m) => Math.abs(at(k, i)) >= Math.abs(at(i + m, i))),
    );
    [rows[i], rows[pivot]] = [rows[pivot] ?? [], rows[i] ?? []];
    for (let k = i + 1; k < rows.length; k++) {
      const factor = at(k, i) / at(i, i);
      rows[k] = (rows[k] ?? []).map((value, j) => value - factor * at(i, j));
    }
  }
  const solution = new Array<number>(rows.length).fill(0);
  for (let i = rows.length - 1; i >= 0; i--) {
    const known = solution.reduce((sum, value, j) => sum + (j > i ? at(i, j) * value : 0), 0);
    solution[i] = (at(i, rows.length) - known) / at(i, i);
  }
  return solution;
}
