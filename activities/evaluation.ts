import type {
  AnswerCaseInput,
  EvaluationInput,
  EvaluationPlan,
  EvaluationStepsResult,
  RecordEvaluationEndInput,
  RecordEvaluationFailureInput,
  RunJudgeCallInput,
  ScoreEvaluationInput,
} from '#src/contracts/evaluation.ts';
import type { EvaluationStepsService } from '#src/modules/evaluations/evaluation-steps.service.ts';
import { withHeartbeats } from './heartbeats.ts';

export type EvaluationActivities = ReturnType<typeof createEvaluationActivities>;

/** Idempotent activities of evaluation workflows: stored answers and verdicts are not requested again. */
export function createEvaluationActivities({ evaluationSteps }: { evaluationSteps: EvaluationStepsService }) {
  return {
    planEvaluation: (input: EvaluationInput): Promise<EvaluationPlan> =>
      withHeartbeats(() => evaluationSteps.plan(input)),

    answerCase: (input: AnswerCaseInput): Promise<EvaluationStepsResult> =>
      withHeartbeats(({ signal }) => evaluationSteps.answer(input, signal)),

    judgeUnit: (input: RunJudgeCallInput): Promise<EvaluationStepsResult> =>
      withHeartbeats(({ signal }) => evaluationSteps.judge(input, signal)),

    scoreEvaluation: (input: ScoreEvaluationInput): Promise<void> => withHeartbeats(() => evaluationSteps.score(input)),

    recordEvaluationFailure: (input: RecordEvaluationFailureInput): Promise<void> =>
      withHeartbeats(() => evaluationSteps.recordFailure(input)),

    recordEvaluationCancellation: (input: RecordEvaluationEndInput): Promise<void> =>
      withHeartbeats(() => evaluationSteps.recordCancellation(input)),
  };
}
