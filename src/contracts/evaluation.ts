import type { ComparedSide, JudgedCase, JudgingUnit, Spending } from '#src/domain/judging/judgement.ts';
import type { FailedUnit } from '#src/domain/judging/outcome.ts';
import type { Rubric } from '#src/domain/judging/rubric.ts';
import type { AttemptOfJob } from './attempts.ts';

/** In order. Runs of a single case have no stages. */
export const evaluationStages = ['plan', 'judge', 'score'] as const;

export type EvaluationStage = (typeof evaluationStages)[number];

/** The argument of `evaluateVersion` and `compareVersions`; the texts are in the row of the run. */
export type EvaluationInput = { orgId: string; runId: string };

/** Plan of a run. `cases` says for each case whether it has a reference. */
export type EvaluationPlan = {
  rubric: Rubric;
  judgesPrompt: boolean;
  cases: boolean[];
  /** Maximum number of model calls. */
  calls: number;
};

/** The argument of `evaluateCase`. `pairwise` compares two versions. */
export type EvaluateCaseInput = EvaluationInput & JudgedCase & { mode: Rubric | 'pairwise' };

export type AnswerCaseInput = EvaluationInput & { caseIndex: number; side: ComparedSide };
export type JudgeUnitInput = EvaluationInput & { unit: JudgingUnit };

/** Failed units and cost of activities. */
export type StepsResult = { spent: Spending; failed: FailedUnit[] };

export type ScoreEvaluationInput = EvaluationInput & AttemptOfJob & { failed: FailedUnit[] };

export type RecordEvaluationEndInput = EvaluationInput & AttemptOfJob;
/** `error.code` is a code of the error catalogue. */
export type RecordEvaluationFailureInput = RecordEvaluationEndInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type EvaluationProgress = { stage: EvaluationStage | 'queued' | 'done'; calls: number } & StepsResult;
