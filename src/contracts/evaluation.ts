import type { ComparedSide, JudgedCase, JudgingUnit, JudgingUsage } from '#src/domain/judging/judgement.ts';
import type { FailedJudgingUnit } from '#src/domain/judging/outcome.ts';
import type { Rubric } from '#src/domain/judging/rubric.ts';
import type { AttemptOfJob } from './workflow-runs.ts';

/** Evaluation stages in order. Runs of a single case have no stages. */
export const evaluationStages = ['plan', 'judge', 'score'] as const;

export type EvaluationStage = (typeof evaluationStages)[number];

export type EvaluationInput = { orgId: string; runId: string };

/** Plan of an evaluation. `cases` says for each case whether it has a reference answer. */
export type EvaluationPlan = {
  rubric: Rubric;
  judgesPrompt: boolean;
  cases: boolean[];
  calls: number;
};

export type EvaluateCaseInput = EvaluationInput & JudgedCase & { mode: Rubric | 'pairwise' };

export type AnswerCaseInput = EvaluationInput & { caseIndex: number; side: ComparedSide };
export type JudgeUnitInput = EvaluationInput & { unit: JudgingUnit };

export type StepsResult = { spent: JudgingUsage; failed: FailedJudgingUnit[] };

export type ScoreEvaluationInput = EvaluationInput & AttemptOfJob & { failed: FailedJudgingUnit[] };

export type RecordEvaluationEndInput = EvaluationInput & AttemptOfJob;
export type RecordEvaluationFailureInput = RecordEvaluationEndInput & { error: { code: string; message: string } };

export type EvaluationProgress = { stage: EvaluationStage | 'queued' | 'done'; calls: number } & StepsResult;
