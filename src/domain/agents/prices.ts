export type ModelKind = 'chat' | 'embedding' | 'reranker';

const unusable =
  /whisper|\btts\b|dall-e|image|audio|realtime|transcribe|moderation|\bsora\b|speech|diffusion|\bflux\b|\bclip\b|davinci|babbage|turbo-instruct/i;

/** Guesses a model's kind from its name: OpenAI lists only names. Null for unusable kinds, such as audio models. */
export function modelKindByName(id: string): ModelKind | null {
  if (/rerank|cross-encoder|late-interaction/i.test(id)) return 'reranker';
  if (/embed|minilm|mpnet|\b(bge|e5|gte|voyage)\b/i.test(id)) return 'embedding';
  return unusable.test(id) ? null : 'chat';
}

export type ModelPrice = { input: number; cachedInput: number; output: number };

/**
 * Price of a model. `version` names the price list, and is stored with each cost so that costs of old chat rounds can
 * be explained.
 */
export type VersionedPrice = ModelPrice & { version: string };

/** Month of OpenAI's list prices. Change it together with any of {@link modelListPrices}. */
export const priceListVersion = '2025-06';
export const priceVersionWithSettings = `${priceListVersion}+settings`;

export const zeroModelPrice: ModelPrice = { input: 0, cachedInput: 0, output: 0 };

export const modelListPrices: Readonly<Record<string, ModelPrice>> = {
  'extractive-1': zeroModelPrice,
  'gpt-4o': { input: 2.5, cachedInput: 1.25, output: 10 },
  'gpt-4o-mini': { input: 0.15, cachedInput: 0.075, output: 0.6 },
  'gpt-4.1': { input: 2, cachedInput: 0.5, output: 8 },
  'gpt-4.1-mini': { input: 0.4, cachedInput: 0.1, output: 1.6 },
  'gpt-4.1-nano': { input: 0.1, cachedInput: 0.025, output: 0.4 },
  'text-embedding-3-small': { input: 0.02, cachedInput: 0.02, output: 0 },
  'text-embedding-3-large': { input: 0.13, cachedInput: 0.13, output: 0 },
};

export function modelCostUsd(
  price: ModelPrice,
  usage: { inputTokens: number; cachedInputTokens: number; completionTokens: number },
): number {
  const freshInputTokens = usage.inputTokens - usage.cachedInputTokens;
  const dollarsPerMillion =
    freshInputTokens * price.input +
    usage.cachedInputTokens * price.cachedInput +
    usage.completionTokens * price.output;
  return dollarsPerMillion / 1_000_000;
}
