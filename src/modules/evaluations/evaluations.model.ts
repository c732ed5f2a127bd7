import type { Judgement, PromptText } from '#src/domain/judging/judgement.ts';
import type { ComparisonResults, EvaluationResults } from '#src/domain/judging/outcome.ts';
import type { FailedUnit } from '#src/domain/judging/results.ts';
import type {
  ComparedSpecification,
  EvaluatedSpecification,
  EvaluationSpecification,
} from '#src/domain/judging/specification.ts';
import type { ModelUsage } from '#src/ports/chat-model.ts';

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

/** All that a run was asked for, but for the texts of its cases. */
export type RunTerms = Omit<EvaluatedSpecification, 'cases'> | Omit<ComparedSpecification, 'cases'>;

export type StoredJudgement = { cacheKey: Buffer; model: string; verdict: Judgement } & ModelUsage;
export type GeneratedAnswer = { cacheKey: Buffer; model: string; answer: string } & ModelUsage;

/** What is judged and answered of a version. */
export type EvaluatedText = PromptText & { temperature: number; maxTokens: number };

export function isComplete(run: Pick<EvaluationRun, 'finishedAt' | 'failedUnits'>): boolean {
  return run.finishedAt !== null && run.failedUnits.length === 0;
}
