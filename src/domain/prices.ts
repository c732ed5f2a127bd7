/** US dollars for a million tokens. */
export type ModelPrice = { input: number; cachedInput: number; output: number };

/** The packaged models run on the deployment's own machine. */
export const modelPrices: Readonly<Record<string, ModelPrice>> = {
  'extractive-1': { input: 0, cachedInput: 0, output: 0 },
};

/** What a call cost; null for a model without a price, which counts as 0 and is reported as unpriced. */
export function costUsd(
  model: string,
  usage: { inputTokens: number; cachedInputTokens: number; completionTokens: number },
  prices: Readonly<Record<string, ModelPrice>> = modelPrices,
): number | null {
  const price = prices[model];
  if (price === undefined) return null;
  const freshInputTokens = usage.inputTokens - usage.cachedInputTokens;
  const dollarsPerMillion =
    freshInputTokens * price.input +
    usage.cachedInputTokens * price.cachedInput +
    usage.completionTokens * price.output;
  return dollarsPerMillion / 1_000_000;
}
