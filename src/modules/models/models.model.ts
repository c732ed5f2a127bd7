import type { ModelKind, VersionedPrice } from '#src/domain/agents/prices.ts';
import type { RerankerType } from '#src/domain/documents/rag-config.ts';

export type Model = {
  id: string;
  kind: ModelKind;
  /** The default model of its kind. */
  isDefault: boolean;
  contextWindow: number | null;
  dimensions: number | null;
  rerankingType: RerankerType | null;
  /** Null: unknown, and counted as nothing. */
  price: VersionedPrice | null;
  isLocal: boolean;
};
