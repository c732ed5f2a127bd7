import type { ComparedSide, JudgedCase, JudgingUnit, JudgingUsage } from '#src/domain/judging/judgement.ts';
import type { FailedJudgingUnit } from '#src/domain/judging/outcome.ts';
import type { Rubric } from '#src/domain/judging/rubric.ts';
import type { JobAttempt } from './workflow-runs.ts';

/** Stages of an evaluation workflow, in order. A run for a single case has no stages. */
export const evaluationStages = ['plan', 'judge', 'score'] as const;

export type EvaluationStage = (typeof evaluationStages)[number];

export type EvaluationInput = { orgId: string; runId: string };

/** Plan of an evaluation. `cases` says for each golden case whether it has a reference answer. */
export type EvaluationPlan = {
  rubric: Rubric;
  judgesPrompt: boolean;
  cases: boolean[];
  calls: number;
};

export type EvaluateCaseInput = EvaluationInput & JudgedCase & { mode: Rubric | 'pairwise' };

export type AnswerCaseInput = EvaluationInput & { caseIndex: number; side: ComparedSide };
export type JudgeUnitInput = EvaluationInput & { unit: JudgingUnit };

export type EvaluationStepsResult = { spent: JudgingUsage; failed: FailedJudgingUnit[] };

export type ScoreEvaluationInput = EvaluationInput & JobAttempt & { failed: FailedJudgingUnit[] };

export type RecordEvaluationEndInput = EvaluationInput & JobAttempt;
export type RecordEvaluationFailureInput = RecordEvaluationEndInput & { error: { code: string; message: string } };

export type EvaluationProgress = { stage: EvaluationStage | 'queued' | 'done'; calls: number } & EvaluationStepsResult;
