import type { ComparedCase, ComparisonStatistics, ComparisonSummary } from '#src/domain/judging/comparison.ts';
import type { CaseText, Judgement, PromptText } from '#src/domain/judging/judgement.ts';
import type { AxisScore, EvaluationResult, FailedUnit } from '#src/domain/judging/results.ts';
import type { Rubric } from '#src/domain/judging/rubric.ts';
import type { ModelUsage } from '#src/ports/chat-model.ts';

/** What is graded: a version of a draft, or a prompt that stands alone. */
export type EvaluationSubject =
  | { kind: 'version'; draftId: string; versionId: string }
  | ({ kind: 'prompt'; userId: string } & PromptText);

/**
 * All that the result of a run depends on: equal ones of an organization are one run. `draw` names a draw of answers;
 * null is for those that were drawn first.
 */
export type EvaluationSpecification = EvaluatedSpecification | ComparedSpecification;

type Judging = {
  evaluatorModel: string;
  /** Who answers the cases. */
  generationModel: string;
  rubricVersion: string;
  cases: CaseText[];
  draw: string | null;
};

export type EvaluatedSpecification = Judging & {
  kind: 'evaluate';
  subject: EvaluationSubject;
  rubric: Rubric;
  judgesPrompt: boolean;
};

export type ComparedSpecification = Judging & {
  kind: 'compare';
  subject: EvaluationSubject & { kind: 'version' };
  baselineVersionId: string;
  baselineGenerationModel: string;
};

export type ComparisonResult = {
  versionPromptScores: AxisScore[];
  baselinePromptScores: AxisScore[];
  versionPromptAverage: number;
  baselinePromptAverage: number;
  cases: ComparedCase[];
  summary: ComparisonSummary;
  statistics: ComparisonStatistics;
};

/** What a run came to, as far as it came. */
export type EvaluationResults = { kind: 'evaluate' } & EvaluationResult;
export type ComparisonResults = { kind: 'compare' } & ComparisonResult;

/** A run of its specification; its id is that of its job. Complete once it has ended without failed units. */
export type EvaluationRun = {
  id: string;
  orgId: string;
  draftId: string | null;
  versionId: string | null;
  baselineVersionId: string | null;
  specification: EvaluationSpecification;
  estimatedCalls: number;
  results: EvaluationResults | ComparisonResults | null;
  failedUnits: FailedUnit[];
  acl: string[];
  createdBy: string;
  createdAt: Date;
  finishedAt: Date | null;
};

export type StoredJudgement = { cacheKey: Buffer; model: string; verdict: Judgement } & ModelUsage;
export type GeneratedAnswer = { cacheKey: Buffer; model: string; answer: string } & ModelUsage;

/** What is judged and answered of a version. */
export type EvaluatedText = PromptText & { temperature: number; maxTokens: number };

export function isComplete(run: Pick<EvaluationRun, 'finishedAt' | 'failedUnits'>): boolean {
  return run.finishedAt !== null && run.failedUnits.length === 0;
}
