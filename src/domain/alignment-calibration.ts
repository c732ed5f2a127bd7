import fitted from './alignment-calibrations.json' with { type: 'json' };
import { refusalVersion } from './refusal.ts';

/**
 * Turns the similarity and the word matches of a text into its score by logistic regression. Belongs to one embedding
 * model: another model's cosines are spread differently.
 */
export type AlignmentCalibration = {
  modelId: string;
  /** Of its vectors. */
  dimensions: number;
  version: string;
  /** score = σ(semantic · sem + lexical · lex + intercept) */
  semantic: number;
  lexical: number;
  intercept: number;
  /** score = σ(lexical · lex + intercept), while there is no embedder */
  lexicalOnly: { lexical: number; intercept: number };
};

/**
 * Fitted on CLINC150 (clinc/oos-eval, CC BY 3.0), ten domains as ten agents, by scripts/fit-alignment.ts, which also
 * writes what they were fitted to and how good they are on a domain that was left out.
 */
const calibrations: readonly AlignmentCalibration[] = fitted;

/** The embedding models that alignment can score with. */
export const calibratedModels: readonly string[] = calibrations.map(({ modelId }) => modelId);

/** Throws when the model has no calibration: scores of another model's scale would be wrong without a sign of it. */
export function calibrationFor(modelId: string): AlignmentCalibration {
  const calibration = calibrations.find((candidate) => candidate.modelId === modelId);
  if (calibration) return calibration;
  throw new Error(`Alignment is not calibrated for the embedding model "${modelId}".`);
}

/** Of how texts are read and weighed; raised when the same texts get other scores by a change of the code. */
const rulesVersion = 4;

/**
 * Changes whenever the same texts could get other scores; stored with every scored round.
 * @param isDegraded scored by words alone: worth scoring again once the embedder is back
 */
export function scorerVersion({ modelId, version }: AlignmentCalibration, isDegraded = false): string {
  const parts = [rulesVersion, modelId, version, refusalVersion];
  return (isDegraded ? [...parts, 'words'] : parts).join('/');
}
