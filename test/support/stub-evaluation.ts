import type { EvaluationActivities } from '#activities/evaluation.ts';
import type { EvaluationPlan, StepsResult } from '#src/contracts/evaluation.ts';
import { zeroJudgingUsage } from '#src/domain/judging/judgement.ts';
import { recordCalls } from './stub-calls.ts';

/** The cost of one answer of a model. */
export const oneCall: StepsResult = {
  spent: { ...zeroJudgingUsage, calls: 1, inputTokens: 10, completionTokens: 2, costUsd: 0.5 },
  failed: [],
};

/** Stub activities for a run with this plan, whose models answer at once. Records the calls in order. */
export function stubEvaluation(plan: Partial<EvaluationPlan> = {}, replaced: Partial<EvaluationActivities> = {}) {
  return recordCalls<EvaluationActivities>({
    planEvaluation: async () => ({ rubric: 'plain', judgesPrompt: true, cases: [true, false], calls: 5, ...plan }),
    answerCase: async () => oneCall,
    judgeUnit: async () => oneCall,
    scoreEvaluation: async () => undefined,
    recordEvaluationFailure: async () => undefined,
    recordEvaluationCancellation: async () => undefined,
    ...replaced,
  });
}
