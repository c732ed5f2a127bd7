import type {
  AnswerCaseInput,
  EvaluationInput,
  EvaluationPlan,
  JudgeUnitInput,
  RecordEvaluationEndInput,
  RecordEvaluationFailureInput,
  ScoreEvaluationInput,
  StepsResult,
} from '#src/contracts/evaluation.ts';
import type { EvaluationStepsService } from '#src/modules/evaluations/evaluation-steps.service.ts';
import { heartbeating } from './heartbeating.ts';

export type EvaluationActivities = ReturnType<typeof createEvaluationActivities>;

/**
 * Activities of `evaluateVersion`, `compareVersions` and `evaluateCase`. All are idempotent: stored replies and judgements
 * are not requested again.
 */
export function createEvaluationActivities({ evaluationSteps }: { evaluationSteps: EvaluationStepsService }) {
  return {
    planEvaluation: (input: EvaluationInput): Promise<EvaluationPlan> =>
      heartbeating(() => evaluationSteps.plan(input)),

    answerCase: (input: AnswerCaseInput): Promise<StepsResult> =>
      heartbeating(({ signal }) => evaluationSteps.answer(input, signal)),

    judgeUnit: (input: JudgeUnitInput): Promise<StepsResult> =>
      heartbeating(({ signal }) => evaluationSteps.judge(input, signal)),

    scoreEvaluation: (input: ScoreEvaluationInput): Promise<void> => heartbeating(() => evaluationSteps.score(input)),

    recordEvaluationFailure: (input: RecordEvaluationFailureInput): Promise<void> =>
      heartbeating(() => evaluationSteps.recordFailure(input)),

    recordEvaluationCancellation: (input: RecordEvaluationEndInput): Promise<void> =>
      heartbeating(() => evaluationSteps.recordCancellation(input)),
  };
}
