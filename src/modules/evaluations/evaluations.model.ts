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
} from '#src/adapters/postgres/columns.ts';
import type {
  ComparedSpecification,
  EvaluatedSpecification,
  EvaluationSpecification,
  Judgement,
  PromptText,
} from '#src/domain/judging/judgement.ts';
import type { ComparisonResults, EvaluationResults } from '#src/domain/judging/outcome.ts';
import type { FailedUnit } from '#src/domain/judging/results.ts';

export class EvaluationRunModel extends model('evaluation_runs', {
  id: text(),
  orgId: uuid(),
  draftId: uuid().nullable(),
  versionId: uuid().nullable(),
  baselineVersionId: uuid().nullable(),
  specification: json<EvaluationSpecification>(),
  estimatedCalls: integer(),
  results: json<EvaluationResults | ComparisonResults>().nullable(),
  failedUnits: json<FailedUnit[]>(),
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

/** A run of its specification; its id is that of its job. Complete once it has ended without failed units. */
export type EvaluationRun = Row<typeof EvaluationRunModel>;

/** All that a run was asked for, but for the texts of its cases. */
export type RunTerms = Omit<EvaluatedSpecification, 'cases'> | Omit<ComparedSpecification, 'cases'>;

export type StoredJudgement = Omit<Row<typeof JudgementModel>, 'orgId' | 'createdAt'>;
export type GeneratedAnswer = Omit<Row<typeof GeneratedAnswerModel>, 'orgId' | 'createdAt'>;

/** What is judged and answered of a version. */
export type EvaluatedText = PromptText & { temperature: number; maxTokens: number };

export function isComplete(run: Pick<EvaluationRun, 'finishedAt' | 'failedUnits'>): boolean {
  return run.finishedAt !== null && run.failedUnits.length === 0;
}
