import { model } from '#src/adapters/postgres/base-model.ts';
import {
  bytea,
  date,
  integer,
  json,
  type Row,
  text,
  textArray,
  timestamp,
  uuid,
} from '#src/adapters/postgres/shapes.ts';
import { type AnsweredCase, type EvalScores, toEvalScores } from '#src/domain/judging/eval-scores.ts';
import type {
  AgentPromptText,
  ComparisonSpecification,
  EvaluationSpecification,
  Judgement,
  SingleEvaluationSpecification,
} from '#src/domain/judging/judgement.ts';
import type { FailedJudgingUnit, TaggedComparisonResult, TaggedEvaluationResult } from '#src/domain/judging/outcome.ts';

export class EvaluationRunModel extends model('evaluation_runs', {
  id: text(),
  orgId: uuid(),
  draftId: uuid().nullable(),
  versionId: uuid().nullable(),
  baselineVersionId: uuid().nullable(),
  specification: json<EvaluationSpecification>(),
  estimatedCalls: integer(),
  results: json<TaggedEvaluationResult | TaggedComparisonResult>().nullable(),
  failedUnits: json<FailedJudgingUnit[]>(),
  acl: textArray(),
  createdBy: uuid(),
  createdAt: timestamp(),
  finishedAt: timestamp().nullable(),
}) {}

export class EvaluationUnitModel extends model(
  'evaluation_units',
  {
    orgId: uuid(),
    runId: text(),
    unit: text(),
    cacheKey: bytea().nullable(),
    failures: integer(),
    pausedSince: timestamp().nullable(),
  },
  ['orgId', 'runId', 'unit'],
) {}

export class EvaluationDayModel extends model(
  'evaluation_days',
  {
    orgId: uuid(),
    day: date(),
    cases: integer(),
  },
  ['orgId', 'day'],
) {}

export class GeneratedAnswerModel extends model(
  'generated_answers',
  {
    orgId: uuid(),
    cacheKey: bytea(),
    model: text(),
    answer: text(),
    inputTokens: integer(),
    cachedInputTokens: integer(),
    completionTokens: integer(),
    createdAt: timestamp(),
  },
  ['orgId', 'cacheKey'],
) {}

export class JudgementModel extends model(
  'judgements',
  {
    orgId: uuid(),
    cacheKey: bytea(),
    model: text(),
    verdict: json<Judgement>(),
    inputTokens: integer(),
    cachedInputTokens: integer(),
    completionTokens: integer(),
    createdAt: timestamp(),
  },
  ['orgId', 'cacheKey'],
) {}

export type EvaluationRun = Row<typeof EvaluationRunModel>;

/** The specification of an evaluation run without its golden cases, whose texts may be megabytes. */
export type SpecificationWithoutCases =
  | Omit<SingleEvaluationSpecification, 'cases'>
  | Omit<ComparisonSpecification, 'cases'>;

export type StoredJudgement = Omit<Row<typeof JudgementModel>, 'orgId' | 'createdAt'>;
export type GeneratedAnswer = Omit<Row<typeof GeneratedAnswerModel>, 'orgId' | 'createdAt'>;

export type EvaluatedPrompt = AgentPromptText & { temperature: number; maxTokens: number };

export function isCompleteRun(run: Pick<EvaluationRun, 'finishedAt' | 'failedUnits'>): boolean {
  return run.finishedAt !== null && run.failedUnits.length === 0;
}

/**
 * Computes the scores to store with the draft version. Returns null for a comparison and for a run without results.
 */
export function evalScoresOfRun(
  run: Pick<EvaluationRun, 'specification' | 'results' | 'failedUnits' | 'finishedAt'>,
  parent: { cases: readonly AnsweredCase[] } | null,
): EvalScores | null {
  const { specification, results, failedUnits, finishedAt } = run;
  if (specification.kind !== 'evaluate' || results?.kind !== 'evaluate' || finishedAt === null) return null;
  const { rubric, rubricVersion, evaluatorModel, generationModel } = specification;
  const judging = { rubric, rubricVersion, evaluatorModel, generationModel };
  return toEvalScores({ result: results, ...judging, failedUnits, finishedAt, parent });
}
