import { expect } from 'chai';
import { figuresOf, type JudgedPair } from '../../../bench/judge/figures.ts';

const pair = (
  better: 0 | 1,
  ab: JudgedPair['ab'],
  ba: JudgedPair['ba'],
  lengths: readonly [number, number] = [10, 20],
): JudgedPair => {
  return { better, ab, ba, lengths };
};

describe('figures of a judge of pairs', () => {
  it('are those of a judge that is always right', () => {
    const figures = figuresOf([pair(0, 'A', 'B'), pair(1, 'B', 'A')]);
    expect(figures).deep.equal({
      ...{ pairs: 2, oneOrder: 1, bothOrders: 1, precision: 1, coverage: 1, flips: 0, first: 0.5 },
      longest: 0.5,
    });
  });

  it('give half to a judge that always takes the first, and nothing to what it decides', () => {
    const figures = figuresOf([pair(0, 'A', 'A'), pair(1, 'A', 'A')]);
    expect(figures).include({ oneOrder: 0.5, bothOrders: 0.5, coverage: 0, flips: 1, first: 1 });
    expect(figures.precision).NaN;
  });

  it('show that swapping does not cure a judge that is wrong in both orders', () => {
    expect(figuresOf([pair(0, 'B', 'A')])).include({ oneOrder: 0, bothOrders: 0, precision: 0, coverage: 1, flips: 0 });
  });

  it('count ties as half, and equal lengths, too', () => {
    expect(figuresOf([pair(0, 'tie', 'tie', [5, 5])])).include({ bothOrders: 0.5, coverage: 0, longest: 0.5 });
  });
});
