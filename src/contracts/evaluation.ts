import type { FailedUnit } from '#src/domain/judging/results.ts';
import type { Rubric } from '#src/domain/judging/rubric.ts';
import type { Spending } from '#src/domain/judging/spending.ts';
import type { JudgedCase, Side, Unit } from '#src/domain/judging/units.ts';
import type { AttemptOfJob } from './jobs.ts';

/** In order. Those of a case have no stages: it generates, and then judges. */
export const evaluationStages = ['plan', 'judge', 'score'] as const;

export type EvaluationStage = (typeof evaluationStages)[number];

/** The argument of `evaluateVersion` and `compareVersions`; texts stand in the row of the run. */
export type EvaluationInput = { orgId: string; runId: string };

/** What a run has to do. `cases` says of each whether it has a reference. */
export type EvaluationPlan = {
  rubric: Rubric;
  judgesPrompt: boolean;
  cases: boolean[];
  /** Calls of models at most. */
  calls: number;
};

/** The argument of `evaluateCase`: by a rubric, or one version against the other. */
export type EvaluateCaseInput = EvaluationInput & JudgedCase & { mode: Rubric | 'pairwise' };

export type AnswerCaseInput = EvaluationInput & { caseIndex: number; side: Side };
export type JudgeUnitInput = EvaluationInput & { unit: Unit };

/** What came of steps, and what they have cost. */
export type StepsResult = { spent: Spending; failed: FailedUnit[] };

export type ScoreEvaluationInput = EvaluationInput & AttemptOfJob & { failed: FailedUnit[] };

export type RecordEvaluationEndInput = EvaluationInput & AttemptOfJob;
/** `error` has a code of the error catalogue. */
export type RecordEvaluationFailureInput = RecordEvaluationEndInput & { error: { code: string; message: string } };

/** Answer of the `stage` query. */
export type EvaluationProgress = { stage: EvaluationStage | 'queued' | 'done'; calls: number } & StepsResult;
