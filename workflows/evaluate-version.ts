import type { EvaluationInput, StepsResult } from '#src/contracts/evaluation.ts';
import { unitsOfPrompt } from '#src/domain/judging/units.ts';
import { runEvaluation } from './evaluation.ts';

/** Grades the prompt of a version, or one that stands alone, and what it answers to cases. */
export function evaluateVersion(input: EvaluationInput): Promise<StepsResult> {
  return runEvaluation(input, ({ rubric, judgesPrompt }) => ({
    units: judgesPrompt ? unitsOfPrompt(rubric) : [],
    mode: rubric,
  }));
}
