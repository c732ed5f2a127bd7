import type { EvaluationInput, StepsResult } from '#src/contracts/evaluation.ts';
import { unitsOfBothPrompts } from '#src/domain/judging/units.ts';
import { runEvaluation } from './evaluation.ts';

/** Grades the prompts of two versions, and says of every case whose answer is better on which axis. */
export function compareVersions(input: EvaluationInput): Promise<StepsResult> {
  return runEvaluation(input, () => ({ units: unitsOfBothPrompts(), mode: 'pairwise' }));
}
