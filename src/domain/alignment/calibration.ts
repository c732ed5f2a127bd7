import fitted from './calibrations.json' with { type: 'json' };
import { refusalVersion } from './refusal.ts';

/**
 * Weights of the logistic regression that turns similarity and word matches of a text into its score. They belong to one
 * embedding model, because cosines of other models are distributed differently.
 */
export type AlignmentCalibration = {
  modelId: string;
  /** Dimensions of the model's vectors. */
  dimensions: number;
  version: string;
  /** score = σ(semantic · sem + lexical · lex + intercept) */
  semantic: number;
  lexical: number;
  intercept: number;
  /** score = σ(lexical · lex + intercept), used while the embedder is unavailable */
  lexicalOnly: { lexical: number; intercept: number };
};

/**
 * Fitted on CLINC150 (clinc/oos-eval, CC BY 3.0; ten domains as ten agents) by scripts/fit-alignment.ts, which also records
 * the training data and the quality on a held-out domain.
 */
const calibrations: readonly AlignmentCalibration[] = fitted;

/** Embedding models with a calibration. */
export const calibratedModels: readonly string[] = calibrations.map(({ modelId }) => modelId);

/** Throws if the model has no calibration, because scores with another model's weights would be silently wrong. */
export function calibrationFor(modelId: string): AlignmentCalibration {
  const calibration = calibrations.find((candidate) => candidate.modelId === modelId);
  if (calibration) return calibration;
  throw new Error(`Alignment is not calibrated for the embedding model "${modelId}".`);
}

/** Increase it when a change of the code gives the same texts other scores. */
const rulesVersion = 4;

/**
 * Version stored with every scored round; changes whenever the same texts could get other scores.
 * @param isDegraded scored without embeddings; such rounds are scored again once the embedder is available
 */
export function scorerVersion({ modelId, version }: AlignmentCalibration, isDegraded = false): string {
  const parts = [rulesVersion, modelId, version, refusalVersion];
  return (isDegraded ? [...parts, 'words'] : parts).join('/');
}
