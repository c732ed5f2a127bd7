import { tableModel } from '#src/adapters/postgres/base-model.ts';
import {
  booleanColumn,
  byteaColumn,
  dateColumn,
  defineRowShape,
  integerColumn,
  jsonColumn,
  pickColumns,
  type SqlRow,
  textArrayColumn,
  textColumn,
  timestampColumn,
  uuidColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { JobStatus } from '#src/contracts/jobs.ts';
import type { ComparisonSummary } from '#src/domain/judging/comparison.ts';
import { type AnsweredCase, type EvalScores, toEvalScores } from '#src/domain/judging/eval-scores.ts';
import type {
  AgentPromptText,
  ComparisonSpecification,
  EvaluationSpecification,
  Judgement,
  SingleEvaluationSpecification,
} from '#src/domain/judging/judgement.ts';
import type {
  ComparisonResultWithKind,
  EvaluationResultWithKind,
  FailedJudgeCall,
} from '#src/domain/judging/outcome.ts';

export class EvaluationRunModel extends tableModel('evaluation_runs', {
  id: textColumn(),
  orgId: uuidColumn(),
  draftId: uuidColumn().nullable(),
  versionId: uuidColumn().nullable(),
  baselineVersionId: uuidColumn().nullable(),
  specification: jsonColumn<EvaluationSpecification>(),
  estimatedCalls: integerColumn(),
  results: jsonColumn<EvaluationResultWithKind | ComparisonResultWithKind>().nullable(),
  failedUnits: jsonColumn<FailedJudgeCall[]>(),
  acl: textArrayColumn(),
  createdBy: uuidColumn(),
  createdAt: timestampColumn(),
  finishedAt: timestampColumn().nullable(),
}) {}

export class EvaluationJudgeCallModel extends tableModel(
  'evaluation_units',
  {
    orgId: uuidColumn(),
    runId: textColumn(),
    unit: textColumn(),
    cacheKey: byteaColumn().nullable(),
    failures: integerColumn(),
    pausedSince: timestampColumn().nullable(),
  },
  ['orgId', 'runId', 'unit'],
) {}

export class EvaluationCountPerDayModel extends tableModel(
  'evaluation_days',
  {
    orgId: uuidColumn(),
    day: dateColumn(),
    cases: integerColumn(),
  },
  ['orgId', 'day'],
) {}

export class GeneratedTestAnswerModel extends tableModel(
  'generated_answers',
  {
    orgId: uuidColumn(),
    cacheKey: byteaColumn(),
    model: textColumn(),
    answer: textColumn(),
    inputTokens: integerColumn(),
    cachedInputTokens: integerColumn(),
    completionTokens: integerColumn(),
    createdAt: timestampColumn(),
  },
  ['orgId', 'cacheKey'],
) {}

export class JudgementModel extends tableModel(
  'judgements',
  {
    orgId: uuidColumn(),
    cacheKey: byteaColumn(),
    model: textColumn(),
    verdict: jsonColumn<Judgement>(),
    inputTokens: integerColumn(),
    cachedInputTokens: integerColumn(),
    completionTokens: integerColumn(),
    createdAt: timestampColumn(),
  },
  ['orgId', 'cacheKey'],
) {}

/** A comparison in a list. `jobStatus` is null if its job was deleted. */
export const comparisonRowShape = defineRowShape({
  ...pickColumns(EvaluationRunModel, 'id', 'finishedAt', 'createdAt', 'failedUnits').columns,
  draftId: uuidColumn(),
  versionId: uuidColumn(),
  baselineVersionId: uuidColumn(),
  agentName: textColumn(),
  versionNumber: integerColumn(),
  versionTitle: textColumn(),
  baselineVersionNumber: integerColumn(),
  baselineVersionTitle: textColumn(),
  evaluatorModel: textColumn(),
  cases: integerColumn(),
  withDocuments: booleanColumn(),
  summary: jsonColumn<ComparisonSummary>().nullable(),
  jobStatus: textColumn<JobStatus>().nullable(),
  sortKey: textColumn(),
});
export type ComparisonRow = SqlRow<typeof comparisonRowShape>;

export const comparisonDetailRowShape = defineRowShape({
  ...comparisonRowShape.columns,
  ...pickColumns(EvaluationRunModel, 'specification', 'results').columns,
});
export type ComparisonDetailRow = SqlRow<typeof comparisonDetailRowShape>;

export type EvaluationRun = SqlRow<typeof EvaluationRunModel>;

export type EvaluationSpecificationWithoutCases =
  | Omit<SingleEvaluationSpecification, 'cases'>
  | Omit<ComparisonSpecification, 'cases'>;

export type StoredJudgement = Omit<SqlRow<typeof JudgementModel>, 'orgId' | 'createdAt'>;
export type GeneratedTestAnswer = Omit<SqlRow<typeof GeneratedTestAnswerModel>, 'orgId' | 'createdAt'>;

export type AgentPromptToEvaluate = AgentPromptText & { temperature: number; maxTokens: number };

export function isCompleteEvaluationRun(run: Pick<EvaluationRun, 'finishedAt' | 'failedUnits'>): boolean {
  return run.finishedAt !== null && run.failedUnits.length === 0;
}

/**
 * Computes the scores to store with the draft version. Returns null for a comparison and for a run without results.
 */
export function evalScoresOfEvaluationRun(
  run: Pick<EvaluationRun, 'specification' | 'results' | 'failedUnits' | 'finishedAt'>,
  parent: { cases: readonly AnsweredCase[] } | null,
): EvalScores | null {
  const { specification, results, failedUnits, finishedAt } = run;
  if (specification.kind !== 'evaluate' || results?.kind !== 'evaluate' || finishedAt === null) return null;
  const { rubric, rubricVersion, evaluatorModel, generationModel } = specification;
  const judging = { rubric, rubricVersion, evaluatorModel, generationModel };
  const withDocuments = specification.documents !== undefined;
  return toEvalScores({ result: results, ...judging, withDocuments, failedUnits, finishedAt, parent });
}
