import { expect } from 'chai';
import { figuresOf, type JudgedPair } from '../../../bench/judge/figures.ts';
import { rowOf } from '../../../bench/report.ts';
import { pairedBootstrap } from '../../../bench/retrieval/bootstrap.ts';
import { ndcg, recall, spanOverlap } from '../../../bench/retrieval/metrics.ts';
import { seededRandom } from '../../../bench/search/random.ts';

describe('the metrics of benchmarks', () => {
  const relevant = new Set(['a', 'b', 'c']);

  it('rate a ranking by nDCG and recall within its first results', () => {
    // By hand: 1/log2(3) of the ideal 1/log2(2) + 1/log2(3) + 1/log2(4).
    const second = 0.6309 / (1 + 0.6309 + 0.5);
    for (const [found, of, depth, expected] of [
      [['c', 'a', 'b', 'x'], relevant, 10, 1],
      [['a', 'b'], relevant, 2, 1],
      [['x', 'a'], relevant, 10, second],
      [['x', 'y', 'a'], relevant, 2, 0],
      [[], relevant, 10, 0],
      [['a'], new Set<string>(), 10, 0],
    ] as const) {
      expect(ndcg(found, of, depth)).closeTo(expected, 1e-4);
    }
    expect(recall(['x', 'a', 'b'], relevant, 2)).closeTo(1 / 3, 1e-12);
    expect(recall(['x', 'a', 'b'], relevant, 50)).closeTo(2 / 3, 1e-12);
    expect(recall(['a'], new Set(), 10)).equal(0);
  });

  it('count text that several found spans contain once for recall, but each time for precision', () => {
    const wanted = { start: 10, end: 20 };
    for (const [found, recall, precision, iou] of [
      [[wanted], 1, 1, 1],
      [[{ start: 0, end: 15 }], 0.5, 1 / 3, 0.25],
      [[wanted, wanted], 1, 0.5, 0.5],
      [[], 0, 0, 0],
    ] as const) {
      expect(spanOverlap([...found], [wanted])).deep.equal({ recall, precision, iou });
    }
  });

  it('give the mean of paired differences with a reproducible bootstrap interval', () => {
    const { next: random } = seededRandom(7);
    const a = Array.from({ length: 200 }, random);
    const b = a.map((value) => value - 0.1 + 0.05 * (random() - 0.5));
    const interval = pairedBootstrap(a, b);
    expect(interval.mean).closeTo(0.1, 0.005);
    expect(interval.low).within(0.09, interval.mean);
    expect(interval.high).within(interval.mean, 0.11);
    expect(pairedBootstrap(a, b)).deep.equal(interval);
    expect(pairedBootstrap([1, 2, 3], [0, 1, 2])).deep.equal({ mean: 1, low: 1, high: 1 });
  });

  it('state how often a judge finds the better of two replies if it sees them in one order, and in both orders', () => {
    type Judged = [better: 0 | 1, ab: JudgedPair['ab'], ba: JudgedPair['ba'], lengths?: [number, number]];
    const rate = (...pairs: Judged[]) =>
      figuresOf(pairs.map(([better, ab, ba, lengths = [10, 20]]) => ({ better, ab, ba, lengths })));
    const right = { oneOrder: 1, bothOrders: 1, precision: 1, coverage: 1, flips: 0, first: 0.5, longest: 0.5 };
    expect(rate([0, 'A', 'B'], [1, 'B', 'A'])).deep.equal({ pairs: 2, ...right });
    const alwaysFirst = rate([0, 'A', 'A'], [1, 'A', 'A']);
    expect(alwaysFirst).include({ oneOrder: 0.5, bothOrders: 0.5, coverage: 0, flips: 1, first: 1 });
    expect(alwaysFirst.precision).NaN;
    expect(rate([0, 'B', 'A'])).include({ oneOrder: 0, bothOrders: 0, precision: 0, coverage: 1, flips: 0 });
    expect(rate([0, 'tie', 'tie', [5, 5]])).include({ bothOrders: 0.5, coverage: 0, longest: 0.5 });
  });

  it('compare the ratio with the limit if there is a peer, otherwise the measured value', () => {
    const shared = { goal: 'P1', what: 'chunking', rounds: [20, 40, 30] };
    expect(rowOf({ ...shared, atMost: 30 })).include({ measured: 30, low: 20, high: 40, rounds: 3, isMet: true });
    const beside = rowOf({ ...shared, peer: 'another', ratios: [1, 3, 2], atLeast: 2.5 });
    expect(beside).include({ measured: 30, ratio: 2, low: 1, high: 3, isMet: false });
    expect(rowOf(shared)).not.property('isMet');
  });
});
