import type { EvaluationActivities } from '#activities/evaluation.ts';
import type { EvaluationPlan, StepsResult } from '#src/contracts/evaluation.ts';
import { nothingSpent } from '#src/domain/judging/spending.ts';

type Call = { name: keyof EvaluationActivities; input: unknown };

/** What one answer of a model has cost. */
export const oneCall: StepsResult = {
  spent: { ...nothingSpent, calls: 1, inputTokens: 10, completionTokens: 2, costUsd: 0.5 },
  failed: [],
};

/** A run of this plan, whose models answer at once. */
export function stubEvaluation(
  plan: Partial<EvaluationPlan> = {},
  replaced: Partial<EvaluationActivities> = {},
): { activities: EvaluationActivities; calls: Call[] } {
  const calls: Call[] = [];
  const all: EvaluationActivities = {
    planEvaluation: async () => ({ rubric: 'plain', judgesPrompt: true, cases: [true, false], calls: 5, ...plan }),
    answerCase: async () => oneCall,
    judgeUnit: async () => oneCall,
    scoreEvaluation: async () => undefined,
    recordEvaluationFailure: async () => undefined,
    recordEvaluationCancellation: async () => undefined,
    ...replaced,
  };
  const recorded = <Input, Result>(name: keyof EvaluationActivities, work: (input: Input) => Promise<Result>) => {
    return (input: Input): Promise<Result> => {
      calls.push({ name, input });
      return work(input);
    };
  };
  const activities: EvaluationActivities = {
    planEvaluation: recorded('planEvaluation', all.planEvaluation),
    answerCase: recorded('answerCase', all.answerCase),
    judgeUnit: recorded('judgeUnit', all.judgeUnit),
    scoreEvaluation: recorded('scoreEvaluation', all.scoreEvaluation),
    recordEvaluationFailure: recorded('recordEvaluationFailure', all.recordEvaluationFailure),
    recordEvaluationCancellation: recorded('recordEvaluationCancellation', all.recordEvaluationCancellation),
  };
  return { activities, calls };
}
