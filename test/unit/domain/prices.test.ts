import { expect } from 'chai';
import { modelCostUsd, modelListPrices, zeroModelPrice } from '#src/domain/agents/prices.ts';

describe('modelCostUsd', () => {
  const usage = { inputTokens: 1_000_000, cachedInputTokens: 400_000, completionTokens: 100_000 };

  it('counts cached input at its own price', () => {
    expect(modelCostUsd({ input: 2, cachedInput: 0.5, output: 10 }, usage)).closeTo(
      0.6 * 2 + 0.4 * 0.5 + 0.1 * 10,
      1e-9,
    );
  });

  it('is exact for a reply of the list', () => {
    const reply = { inputTokens: 1_200, cachedInputTokens: 1_024, completionTokens: 300 };
    const price = modelListPrices['gpt-4o-mini'] ?? zeroModelPrice;
    expect(modelCostUsd(price, reply)).closeTo((176 * 0.15 + 1_024 * 0.075 + 300 * 0.6) / 1e6, 1e-12);
  });

  it('is zero for a local model', () => {
    expect(modelCostUsd(zeroModelPrice, usage)).equal(0);
  });
});
