export type SparseSample = { indexes: Uint32Array; values: Float64Array; isPositive: boolean };

const memory = 10;
const maxSteps = 200;
const flatEnough = 1e-5;

/**
 * Fits an L2-regularized logistic regression (`penalty` / 2 · |w|² is added to the sum of the losses; the intercept is
 * not penalized) by limited-memory BFGS (Nocedal and Wright 2006, algorithm 7.4). The intercept is the last weight. The
 * same samples in the same order give the same weights.
 */
export function fitSparseLogistic(samples: readonly SparseSample[], size: number, penalty: number): Float64Array {
  const weights = new Float64Array(size + 1);
  let { loss, gradient } = evaluate(samples, weights, penalty);
  const steps: { moved: Float64Array; turned: Float64Array; curvature: number }[] = [];
  for (let step = 0; step < maxSteps && norm(gradient) > flatEnough * samples.length; step++) {
    const direction = descent(gradient, steps);
    const slope = dot(direction, gradient);
    let length = steps.length === 0 ? 1 / norm(gradient) : 1;
    let next = shifted(weights, direction, length);
    let there = evaluate(samples, next, penalty);
    // Backtracking line search with the Armijo condition.
    while (there.loss > loss + 1e-4 * length * slope && length > 1e-10) {
      length /= 2;
      next = shifted(weights, direction, length);
      there = evaluate(samples, next, penalty);
    }
    const moved = difference(next, weights);
    const turned = difference(there.gradient, gradient);
    const curvature = dot(moved, turned);
    if (curvature > 1e-12) steps.push({ moved, turned, curvature });
    if (steps.length > memory) steps.shift();
    weights.set(next);
    ({ loss, gradient } = there);
  }
  return weights;
}

function margin({ indexes, values }: SparseSample, weights: Float64Array): number {
  let sum = weights.at(-1) ?? 0;
  for (let i = 0; i < indexes.length; i++) sum += (weights[indexes[i] ?? -1] ?? 0) * (values[i] ?? 0);
  return sum;
}

function evaluate(samples: readonly SparseSample[], weights: Float64Array, penalty: number) {
  const gradient = weights.map((weight) => penalty * weight);
  const free = weights.length - 1;
  gradient[free] = 0;
  let loss = (penalty / 2) * (dot(weights, weights) - (weights[free] ?? 0) ** 2);
  for (const sample of samples) {
    const m = margin(sample, weights);
    const signed = sample.isPositive ? m : -m;
    // Computes ln(1 + e^-m) without overflow.
    loss += signed > 0 ? Math.log1p(Math.exp(-signed)) : Math.log1p(Math.exp(signed)) - signed;
    const error = 1 / (1 + Math.exp(-m)) - (sample.isPositive ? 1 : 0);
    const { indexes, values } = sample;
    for (let i = 0; i < indexes.length; i++) {
      const index = indexes[i] ?? 0;
      gradient[index] = (gradient[index] ?? 0) + error * (values[i] ?? 0);
    }
    gradient[free] = (gradient[free] ?? 0) + error;
  }
  return { loss, gradient };
}

/** The L-BFGS search direction, by the two-loop recursion. */
function descent(
  gradient: Float64Array,
  steps: readonly { moved: Float64Array; turned: Float64Array; curvature: number }[],
): Float64Array {
  let direction = gradient.map((value) => -value);
  const shares: number[] = [];
  for (const { moved, turned, curvature } of steps.toReversed()) {
    const share = dot(moved, direction) / curvature;
    shares.unshift(share);
    addTo(direction, turned, -share);
  }
  const last = steps.at(-1);
  if (last) {
    const scale = last.curvature / dot(last.turned, last.turned);
    direction = direction.map((value) => scale * value);
  }
  steps.forEach(({ moved, turned, curvature }, i) => {
    addTo(direction, moved, (shares[i] ?? 0) - dot(turned, direction) / curvature);
  });
  return direction;
}

function dot(a: Float64Array, b: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += (a[i] ?? 0) * (b[i] ?? 0);
  return sum;
}

function norm(a: Float64Array): number {
  return Math.sqrt(dot(a, a));
}

function addTo(target: Float64Array, other: Float64Array, factor: number): void {
  for (let i = 0; i < target.length; i++) target[i] = (target[i] ?? 0) + factor * (other[i] ?? 0);
}

function shifted(start: Float64Array, direction: Float64Array, length: number): Float64Array {
  return start.map((value, i) => value + length * (direction[i] ?? 0));
}

function difference(a: Float64Array, b: Float64Array): Float64Array {
  return a.map((value, i) => value - (b[i] ?? 0));
}
