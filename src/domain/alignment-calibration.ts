/**
 * Turns the similarity and the word matches of a text into its score by logistic regression. Belongs to one embedding
 * model: another model's cosines are spread differently.
 */
export type AlignmentCalibration = {
  modelId: string;
  version: string;
  /** score = σ(semantic · sem + lexical · lex + intercept) */
  semantic: number;
  lexical: number;
  intercept: number;
  /** score = σ(lexical · lex + intercept), while there is no embedder */
  lexicalOnly: { lexical: number; intercept: number };
};

/**
 * Fitted on CLINC150 (clinc/oos-eval, CC BY 3.0), ten domains as ten agents; scripts/fit-alignment.ts measures them
 * again: on a domain left out, ROC-AUC 0.948 (worst domain 0.917), by words alone 0.841. A fit to the shipped idf table
 * and this revision of the model gives 17.50, 2.14 and −4.30 (sd over the domains 0.57, 0.19 and 0.09) with the same
 * ROC-AUC; the revision before gave 17.74, 2.10 and −4.34, so the coefficients are kept.
 */
const calibrations: readonly AlignmentCalibration[] = [
  {
    modelId: 'all-minilm-l6-v2-int8-r2',
    version: 'clinc150-1',
    semantic: 17.2,
    lexical: 1.76,
    intercept: -4.38,
    lexicalOnly: { lexical: 6.57, intercept: -1.24 },
  },
];

/** The embedding models that alignment can score with. */
export const calibratedModels: readonly string[] = calibrations.map(({ modelId }) => modelId);

/** Throws when the model has no calibration: scores of another model's scale would be wrong without a sign of it. */
export function calibrationFor(modelId: string): AlignmentCalibration {
  const calibration = calibrations.find((candidate) => candidate.modelId === modelId);
  if (calibration) return calibration;
  throw new Error(`Alignment is not calibrated for the embedding model "${modelId}".`);
}

/** Changes whenever the same texts could get other scores; stored with every scored round. */
export function scorerVersion(calibration: AlignmentCalibration): string {
  return `1/${calibration.modelId}/${calibration.version}`;
}
