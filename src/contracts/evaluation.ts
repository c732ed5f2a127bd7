import type { ComparedVersionSide, JudgeCall, JudgedTestCase, JudgeTokenUsage } from '#src/domain/judging/judgement.ts';
import type { FailedJudgeCall } from '#src/domain/judging/outcome.ts';
import type { JudgeRubric } from '#src/domain/judging/rubric.ts';
import type { JobAttempt } from './workflow-runs.ts';

export const evaluationStages = ['plan', 'judge', 'score'] as const;

export type EvaluationStage = (typeof evaluationStages)[number];

export type EvaluationInput = { orgId: string; runId: string };

/** Plan of an evaluation. `cases` says for each golden case whether it has a reference answer. */
export type EvaluationPlan = {
  rubric: JudgeRubric;
  judgesPrompt: boolean;
  cases: boolean[];
  calls: number;
};

export type EvaluateCaseInput = EvaluationInput & JudgedTestCase & { mode: JudgeRubric | 'pairwise' };

export type AnswerCaseInput = EvaluationInput & { caseIndex: number; side: ComparedVersionSide };
export type RunJudgeCallInput = EvaluationInput & { unit: JudgeCall };

export type EvaluationStepsResult = { spent: JudgeTokenUsage; failed: FailedJudgeCall[] };

export type ScoreEvaluationInput = EvaluationInput & JobAttempt & { failed: FailedJudgeCall[] };

export type RecordEvaluationEndInput = EvaluationInput & JobAttempt;
export type RecordEvaluationFailureInput = RecordEvaluationEndInput & { error: { code: string; message: string } };

export type EvaluationProgress = { stage: EvaluationStage | 'queued' | 'done'; calls: number } & EvaluationStepsResult;
