import { expect } from 'chai';
import { pairedBootstrap } from '../../../bench/retrieval/bootstrap.ts';
import { ndcg, recall, spanOverlap } from '../../../bench/retrieval/metrics.ts';
import { seededRandom } from '../../../bench/search/random.ts';

describe('metrics of a ranking', () => {
  const relevant = new Set(['a', 'b', 'c']);

  it('give the best order 1, whatever follows', () => {
    expect(ndcg(['c', 'a', 'b', 'x'], relevant, 10)).equal(1);
    expect(ndcg(['a', 'b'], relevant, 2)).equal(1);
  });

  it('discount by the logarithm of the rank', () => {
    // By hand: 1/log2(3) of the ideal 1/log2(2) + 1/log2(3) + 1/log2(4).
    expect(ndcg(['x', 'a'], relevant, 10)).closeTo(0.6309 / (1 + 0.6309 + 0.5), 1e-4);
  });

  it('see nothing beyond the depth', () => {
    expect(ndcg(['x', 'y', 'a'], relevant, 2)).equal(0);
    expect(recall(['x', 'a', 'b'], relevant, 2)).closeTo(1 / 3, 1e-12);
    expect(recall(['x', 'a', 'b'], relevant, 50)).closeTo(2 / 3, 1e-12);
  });

  it('are 0 for nothing found and for nothing to find', () => {
    expect(ndcg([], relevant, 10)).equal(0);
    expect(ndcg(['a'], new Set(), 10)).equal(0);
    expect(recall(['a'], new Set(), 10)).equal(0);
  });
});

describe('the overlap of found with wanted spans', () => {
  const wanted = [{ start: 10, end: 20 }];

  it('is 1 in all respects for the same span', () => {
    expect(spanOverlap([{ start: 10, end: 20 }], wanted)).deep.equal({ recall: 1, precision: 1, iou: 1 });
  });

  it('counts what of the wanted was found, and what of the found was wanted', () => {
    expect(spanOverlap([{ start: 0, end: 15 }], wanted)).deep.equal({ recall: 0.5, precision: 1 / 3, iou: 0.25 });
  });

  it('counts a place once for recall and each time for precision', () => {
    const twice = [
      { start: 10, end: 20 },
      { start: 10, end: 20 },
    ];
    expect(spanOverlap(twice, wanted)).deep.equal({ recall: 1, precision: 0.5, iou: 0.5 });
  });

  it('is 0 for nothing found', () => {
    expect(spanOverlap([], wanted)).deep.equal({ recall: 0, precision: 0, iou: 0 });
  });
});

describe('the paired bootstrap', () => {
  it('gives the mean difference within its interval, the same each time', () => {
    const { next: random } = seededRandom(7);
    const a = Array.from({ length: 200 }, random);
    const b = a.map((value) => value - 0.1 + 0.05 * (random() - 0.5));
    const interval = pairedBootstrap(a, b);
    expect(interval.mean).closeTo(0.1, 0.005);
    expect(interval.low).below(interval.mean).above(0.09);
    expect(interval.high).above(interval.mean).below(0.11);
    expect(pairedBootstrap(a, b)).deep.equal(interval);
  });

  it('has no width where all differences are the same', () => {
    expect(pairedBootstrap([1, 2, 3], [0, 1, 2])).deep.equal({ mean: 1, low: 1, high: 1 });
  });
});
