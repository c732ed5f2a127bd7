import { expect } from 'chai';
import { costUsd, freeOfCharge } from '#src/domain/prices.ts';

describe('costUsd', () => {
  const usage = { inputTokens: 1_000_000, cachedInputTokens: 400_000, completionTokens: 100_000 };

  it('counts cached input at its own price', () => {
    expect(costUsd({ input: 2, cachedInput: 0.5, output: 10 }, usage)).closeTo(0.6 * 2 + 0.4 * 0.5 + 0.1 * 10, 1e-9);
  });

  it('is nothing for a model of our own', () => {
    expect(costUsd(freeOfCharge, usage)).equal(0);
  });
});
