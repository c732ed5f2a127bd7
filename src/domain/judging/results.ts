import { type Axis, axesOfReply, promptAxes, rubricOf } from './axes.ts';
import type { AnchoredScore, Judgement, PlainScore } from './judgement.ts';
import type { Severity } from './rubric.ts';
import { meanScore, standardDeviation } from './statistics.ts';
import { type Unit, unitName } from './units.ts';

/** `severity` and `sd` (standard deviation of the samples, two decimals) only exist for the anchored rubric. */
export type AxisScore = {
  axis: Axis;
  label: string;
  /** Mean of the samples, 0 to 5, two decimals. */
  score: number;
  rationale: string;
  weakness: string;
  severity?: Severity;
  sd?: number;
};

export type CaseResult = {
  input: string;
  generatedResponse: string;
  hasReference: boolean;
  responseScores: AxisScore[];
  responseAverage: number;
};

/** Result of an evaluation. Averages have two decimals and cover the listed scores. */
export type EvaluationResult = {
  promptScores: AxisScore[];
  promptAverage: number;
  cases: CaseResult[];
  /** 0 without cases. */
  responseAverage: number;
  /** Mean of both averages, or the only one that exists. */
  overallAverage: number;
};

/** A unit without a verdict: its name (`unitName`) and error code. */
export type FailedUnit = { unit: string; code: string };

/** Outcome of a unit: a judgement or an error code. */
export type UnitOutcome = { unit: Unit; judgement: Judgement } | { unit: Unit; code: string };

/** @returns the scores of a prompt; axes without a verdict are missing */
export function promptScores(outcomes: readonly UnitOutcome[]): AxisScore[] {
  return axisScores(outcomes, promptAxes);
}

/** @returns the scores of a reply; null unless every axis has a verdict, because averages would not be comparable */
export function caseResult(
  answered: { input: string; generatedResponse: string; hasReference: boolean },
  outcomes: readonly UnitOutcome[],
): CaseResult | null {
  const axes = axesOfReply(answered.hasReference);
  const responseScores = axisScores(outcomes, axes);
  if (responseScores.length < axes.length) return null;
  return { ...answered, responseScores, responseAverage: averageOf(responseScores) };
}

export function evaluationResult(promptScores: AxisScore[], cases: CaseResult[]): EvaluationResult {
  const promptAverage = averageOf(promptScores);
  const responseAverage = meanScore(cases.map((each) => each.responseAverage));
  const averages = [
    ...(promptScores.length === 0 ? [] : [promptAverage]),
    ...(responseAverage === null ? [] : [responseAverage]),
  ];
  return {
    promptScores,
    promptAverage,
    cases,
    responseAverage: responseAverage ?? 0,
    overallAverage: meanScore(averages) ?? 0,
  };
}

/** Mean of the rounded scores; 0 without scores. */
export function averageOf(scores: readonly AxisScore[]): number {
  return meanScore(scores.map(({ score }) => score)) ?? 0;
}

export function failedUnits(outcomes: readonly UnitOutcome[]): FailedUnit[] {
  return outcomes.flatMap((outcome) =>
    'code' in outcome ? [{ unit: unitName(outcome.unit), code: outcome.code }] : [],
  );
}

/** Lists the first ten failed units. */
export function namesOfFailed(failed: readonly FailedUnit[]): string {
  const names = failed.slice(0, 10).map(({ unit, code }) => `${unit} (${code})`);
  return failed.length > names.length ? `${names.join(', ')}, … (${failed.length} in all)` : names.join(', ');
}

function axisScores(outcomes: readonly UnitOutcome[], axes: readonly Axis[]): AxisScore[] {
  const verdicts = outcomes.flatMap((outcome) => ('judgement' in outcome ? verdictsIn(outcome.judgement) : []));
  return axes.flatMap((axis) => {
    const samples = verdicts.filter((verdict) => verdict.axis === axis);
    const [first] = samples;
    return first === undefined ? [] : [axisScore(axis, [first, ...samples.slice(1)])];
  });
}

function verdictsIn(judgement: Judgement): (PlainScore | AnchoredScore)[] {
  if (judgement.mode === 'pairwise') return [];
  return judgement.mode === 'plain' ? judgement.scores : [judgement];
}

/** The texts come from the first sample nearest to the mean. */
function axisScore(axis: Axis, samples: [PlainScore | AnchoredScore, ...(PlainScore | AnchoredScore)[]]): AxisScore {
  const scores = samples.map((sample) => sample.score);
  const score = meanScore(scores) ?? 0;
  const distance = (sample: PlainScore) => Math.abs(sample.score - score);
  const representative = samples.reduce((best, sample) => (distance(sample) < distance(best) ? sample : best));
  const { rationale } = representative;
  const shown = { axis, label: rubricOf(axis).label, score, rationale };
  if (!('severity' in representative)) return { ...shown, weakness: '' };
  const sd = Math.round(standardDeviation(scores) * 100) / 100;
  return { ...shown, weakness: representative.weakness, severity: representative.severity, sd };
}
