import type { ModelKind } from '#src/domain/model-kind.ts';
import type { VersionedPrice } from '#src/domain/prices.ts';
import type { RerankerType } from '#src/domain/rag-config.ts';

export type Model = {
  id: string;
  kind: ModelKind;
  /** What its kind is done with where nobody chooses. */
  isDefault: boolean;
  contextWindow: number | null;
  dimensions: number | null;
  rerankingType: RerankerType | null;
  /** Null: unknown, and counted as nothing. */
  price: VersionedPrice | null;
  isLocal: boolean;
};
