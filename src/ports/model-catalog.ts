import type { ModelKind } from '#src/domain/model-kind.ts';
import type { RerankerType } from '#src/domain/rag-config.ts';

/** A model as its provider describes it; null where the provider does not say. */
export type ProvidedModel = {
  id: string;
  kind: ModelKind;
  /** Tokens that a request may hold. */
  contextWindow: number | null;
  /** Tokens of retrieved passages beyond which a chat model takes longer to read than they help. */
  contextBudget: number | null;
  /** Of an embedding model's vectors. */
  dimensions: number | null;
  /** What an embedding model wants before a question that looks for passages, and not before passages. */
  queryPrefix: string | null;
  /** What a reranker is; null for other models. */
  rerankingType: RerankerType | null;
  /** False for a chat model that only quotes: it fills no JSON, and judges nothing. */
  writesJson: boolean;
  /** Runs on the deployment's own machine. */
  isLocal: boolean;
};

/** What a provider offers, or within seconds why not. Errors as in `Embedder`; a provider without a list offers nothing. */
export type ModelCatalog = { list(): Promise<ProvidedModel[]> };
