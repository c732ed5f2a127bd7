import { expect } from 'chai';
import { costUsd } from '#src/domain/prices.ts';

describe('costUsd', () => {
  const prices = { m: { input: 2, cachedInput: 0.5, output: 10 } };

  it('counts cached input at its own price', () => {
    const usage = { inputTokens: 1_000_000, cachedInputTokens: 400_000, completionTokens: 100_000 };
    expect(costUsd('m', usage, prices)).closeTo(0.6 * 2 + 0.4 * 0.5 + 0.1 * 10, 1e-9);
  });

  it('tells a model without a price from one that is free', () => {
    const usage = { inputTokens: 10, cachedInputTokens: 0, completionTokens: 10 };
    expect(costUsd('unknown', usage)).equal(null);
    expect(costUsd('extractive-1', usage)).equal(0);
  });
});
