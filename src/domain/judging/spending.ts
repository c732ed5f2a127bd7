/**
 * What steps have taken of models, as their provider reports it. `calls` counts answers, `cached` those that were there
 * already and have cost nothing. Models without a price cost 0.
 */
export type Spending = {
  calls: number;
  cached: number;
  inputTokens: number;
  completionTokens: number;
  costUsd: number;
};

export const nothingSpent: Spending = { calls: 0, cached: 0, inputTokens: 0, completionTokens: 0, costUsd: 0 };

export function plusSpending(a: Spending, b: Spending): Spending {
  return {
    calls: a.calls + b.calls,
    cached: a.cached + b.cached,
    inputTokens: a.inputTokens + b.inputTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    costUsd: a.costUsd + b.costUsd,
  };
}

/** In one line, for operators. */
export function spendingLine({ calls, cached, inputTokens, completionTokens, costUsd }: Spending): string {
  return (
    `${calls} answers, ${cached} of them known before; ` +
    `${inputTokens} tokens read, ${completionTokens} written, ${costUsd.toFixed(4)} US dollars`
  );
}
