import { z } from 'zod';
import { pairTestCases, type TestCasePair } from '#src/domain/judging/eval-scores.ts';
import type { EvaluationStatus } from '#src/domain/judging/outcome.ts';
import { judgeRubrics, maxJudgeScore, weaknessSeverities } from '#src/domain/judging/rubric.ts';
import { meanConfidenceInterval, meanScore, signTestPValue } from '#src/domain/judging/statistics.ts';

const score = z.number().min(0).max(maxJudgeScore);
const optionalText = z.string().catch('');
const nullableText = z.string().nullable().catch(null);

const axisScore = z.object({
  axis: z.string(),
  label: optionalText,
  score,
  rationale: optionalText,
  weakness: optionalText,
  severity: z.enum(weaknessSeverities).optional().catch(undefined),
  sd: z.number().optional().catch(undefined),
});

const scoredCase = z.object({
  id: nullableText,
  reference_answer: optionalText,
  input: z.string(),
  generated_response: optionalText,
  has_reference: z.boolean().catch(false),
  response_scores: z.array(axisScore),
  response_average: score,
});

/**
 * The scores of a draft version as shown in a report. Clients may commit a version with scores of their own, which can
 * lack fields; the missing fields get defaults.
 */
const reportedScores = z.object({
  prompt_scores: z.array(axisScore),
  prompt_average: score,
  cases: z.array(scoredCase).default([]),
  response_average: score.default(0),
  overall_average: score,
  ci95: z.tuple([z.number(), z.number()]).nullable().catch(null),
  rubric: z.enum(judgeRubrics).nullable().catch(null),
  evaluator_model: nullableText,
  generation_model: nullableText,
  rubric_version: nullableText,
  samples: z.number().nullable().catch(null),
  with_documents: z.boolean().catch(false),
  same_family: z.boolean().catch(false),
  length_confounded: z.boolean().catch(false),
  failed_units: z.array(z.object({ unit: z.string(), code: z.string() })).catch([]),
  finished_at: nullableText,
});

export type ReportedEvaluationScores = z.output<typeof reportedScores>;
type ReportedAxis = z.output<typeof axisScore>;
type ReportedCase = z.output<typeof scoredCase>;

export function readEvaluationScores(stored: unknown): ReportedEvaluationScores | null {
  return reportedScores.safeParse(stored).data ?? null;
}

type ReportedVersion = {
  versionNumber: number;
  title: string;
  agentName: string;
  evalScores: unknown;
  evalStatus: EvaluationStatus | null;
};

type VersionName = { number: number; title: string };

type Change = { score: number; parent: number | null; change: number | null };

type ReportedAxisChange = Change & {
  subject: 'prompt' | 'response';
  axis: string;
  label: string;
  rationale: string;
  weakness: string;
};

export type CaseScoreChange = Change & { number: number } & Omit<ReportedCase, 'response_average'>;

export type EvaluationReport = {
  agent_name: string;
  version: VersionName;
  parent: VersionName | null;
  judged: Pick<
    ReportedEvaluationScores,
    'rubric' | 'evaluator_model' | 'generation_model' | 'rubric_version' | 'samples' | 'with_documents' | 'finished_at'
  >;
  averages: Record<'prompt' | 'response' | 'overall', Change>;
  ci95: ReportedEvaluationScores['ci95'];
  axes: ReportedAxisChange[];
  /** Scores of the golden cases, weakest first. `number` is the position of the case in the run, counted from 1. */
  cases: CaseScoreChange[];
  /**
   * Mean score change over the golden cases of both versions, with 95 % confidence interval; null if they share none.
   */
  paired: { cases: number; mean_change: number; ci95: [number, number] | null; p_value: number } | null;
  notes: string[];
  failed_units: ReportedEvaluationScores['failed_units'];
};

export function buildEvaluationReport(
  version: ReportedVersion,
  parent: ReportedVersion | null,
): EvaluationReport | null {
  const scores = readEvaluationScores(version.evalScores);
  if (scores === null) return null;
  const before = parent === null ? null : readEvaluationScores(parent.evalScores);
  const hasReplies = scores.cases.length > 0;
  const pairs = pairTestCases(scores.cases, before?.cases ?? []);
  return {
    agent_name: version.agentName.trim() || 'Untitled Draft',
    version: nameOf(version),
    parent: parent !== null && before !== null ? nameOf(parent) : null,
    judged: {
      rubric: scores.rubric,
      evaluator_model: scores.evaluator_model,
      generation_model: scores.generation_model,
      rubric_version: scores.rubric_version,
      samples: scores.samples,
      with_documents: scores.with_documents,
      finished_at: scores.finished_at,
    },
    averages: {
      prompt: change(scores.prompt_average, before?.prompt_average),
      response: change(scores.response_average, before?.cases.length ? before.response_average : undefined),
      overall: change(scores.overall_average, before?.overall_average),
    },
    ci95: scores.ci95,
    axes: [
      ...scores.prompt_scores.map((axis) => promptAxis(axis, before?.prompt_scores ?? [])),
      ...(hasReplies ? responseAxes(scores.cases, before?.cases ?? []) : []),
    ],
    cases: weakestFirst(scores.cases, pairs),
    paired: pairedChange(pairs),
    notes: notesOn(version.evalStatus, scores, before),
    failed_units: scores.failed_units,
  };
}

const nameOf = ({ versionNumber, title }: ReportedVersion): VersionName => ({ number: versionNumber, title });

function change(score: number, parent: number | null | undefined): Change {
  if (parent === null || parent === undefined) return { score, parent: null, change: null };
  return { score, parent, change: Math.round((score - parent) * 100) / 100 };
}

function promptAxis(axis: ReportedAxis, parents: readonly ReportedAxis[]): ReportedAxisChange {
  const parent = parents.find((each) => each.axis === axis.axis)?.score;
  const { rationale, weakness } = axis;
  return { subject: 'prompt', axis: axis.axis, label: axis.label, ...change(axis.score, parent), rationale, weakness };
}

function responseAxes(cases: readonly ReportedCase[], parents: readonly ReportedCase[]): ReportedAxisChange[] {
  const labels = new Map(cases.flatMap((each) => each.response_scores.map(({ axis, label }) => [axis, label])));
  const meanOf = (all: readonly ReportedCase[], axis: string) =>
    meanScore(all.flatMap((each) => each.response_scores.filter((of) => of.axis === axis).map(({ score }) => score)));
  return [...labels].map(([axis, label]) => {
    const compared = change(meanOf(cases, axis) ?? 0, meanOf(parents, axis));
    return { subject: 'response', axis, label, ...compared, rationale: '', weakness: '' };
  });
}

function weakestFirst(cases: readonly ReportedCase[], pairs: readonly TestCasePair<ReportedCase>[]): CaseScoreChange[] {
  return cases
    .map((each, index) => {
      const { response_average, ...rest } = each;
      const parent = pairs.find(({ version }) => version === each)?.parent.response_average;
      return { number: index + 1, ...change(response_average, parent), ...rest };
    })
    .toSorted((a, b) => a.score - b.score || a.number - b.number);
}

function pairedChange(pairs: readonly TestCasePair<ReportedCase>[]): EvaluationReport['paired'] {
  const changes = pairs.map(
    ({ version, parent }) => change(version.response_average, parent.response_average).change ?? 0,
  );
  if (changes.length === 0) return null;
  const interval = meanConfidenceInterval(changes);
  const wins = changes.filter((each) => each > 0).length;
  const losses = changes.filter((each) => each < 0).length;
  const round = (value: number) => Math.round(value * 100) / 100;
  return {
    cases: changes.length,
    mean_change: round(changes.reduce((sum, each) => sum + each, 0) / changes.length),
    ci95: interval && [round(interval.low), round(interval.high)],
    p_value: Math.round(signTestPValue(wins, losses) * 10_000) / 10_000,
  };
}

function notesOn(
  status: EvaluationStatus | null,
  scores: ReportedEvaluationScores,
  before: ReportedEvaluationScores | null,
): string[] {
  const notes: string[] = [];
  if (status !== 'completed' && status !== 'partial') {
    notes.push('These scores came with the commit, or are of an earlier evaluation.');
  }
  if (scores.failed_units.length > 0) {
    notes.push(`${scores.failed_units.length} verdicts are missing; no average counts them.`);
  }
  if (scores.same_family) {
    notes.push('The judge is of the family of the model that it judges, and may favour its own kind.');
  }
  if (scores.length_confounded) {
    notes.push('The longer replies are the better ones, and much longer: length alone could explain the change.');
  }
  if (before !== null && isJudgedDifferently(scores, before)) {
    notes.push('The parent was judged by another rubric or another model: do not read the changes as better or worse.');
  }
  if (before !== null && before.cases.length > 0 && before.with_documents !== scores.with_documents) {
    notes.push(
      'Only one of the two versions answered with documents: do not read the changes of replies as better or worse.',
    );
  }
  return notes;
}

function isJudgedDifferently(one: ReportedEvaluationScores, other: ReportedEvaluationScores): boolean {
  return (['rubric', 'rubric_version', 'evaluator_model'] as const).some((name) => one[name] !== other[name]);
}
