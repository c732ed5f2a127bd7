import { meanScore, standardDeviation } from './averages.ts';
import { type Axis, axesOfReply, promptAxes, rubricOf } from './axes.ts';
import type { AnchoredScore, Judgement, PlainScore } from './judgement.ts';
import type { Severity } from './rubric.ts';
import { type Unit, unitName } from './units.ts';

/** `severity` and `sd` (standard deviation of the samples, two decimals) with the anchored rubric only. */
export type AxisScore = {
  axis: Axis;
  label: string;
  /** 0 to 5, the mean of the samples, two decimals. */
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

/** What an evaluation comes to. Averages have two decimals and are of what is listed here, nothing else. */
export type EvaluationResult = {
  promptScores: AxisScore[];
  promptAverage: number;
  cases: CaseResult[];
  /** 0 without cases. */
  responseAverage: number;
  /** The mean of both averages; that of what was judged where it is only one. */
  overallAverage: number;
};

/** A unit without a verdict: its name (`unitName`), and the code of the error that it ended with. */
export type FailedUnit = { unit: string; code: string };

/** A unit as it ended: with what the judge found, or with the code of an error. */
export type UnitOutcome = { unit: Unit; judgement: Judgement } | { unit: Unit; code: string };

/** What a prompt earned; an axis without a verdict is left out. */
export function promptScores(outcomes: readonly UnitOutcome[]): AxisScore[] {
  return axisScores(outcomes, promptAxes);
}

/** What a reply earned; null unless every axis has a verdict, as an average of some says nothing beside that of all. */
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

/** The mean of the axes as they are shown; 0 without any. */
export function averageOf(scores: readonly AxisScore[]): number {
  return meanScore(scores.map(({ score }) => score)) ?? 0;
}

export function failedUnits(outcomes: readonly UnitOutcome[]): FailedUnit[] {
  return outcomes.flatMap((outcome) =>
    'code' in outcome ? [{ unit: unitName(outcome.unit), code: outcome.code }] : [],
  );
}

/** The first ten, in words. */
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

/** The words are those of the sample that comes nearest to the mean, the first of several. */
function axisScore(axis: Axis, samples: [PlainScore | AnchoredScore, ...(PlainScore | AnchoredScore)[]]): AxisScore {
  const scores = samples.map((sample) => sample.score);
  const score = meanScore(scores) ?? 0;
  const farOff = (sample: PlainScore) => Math.abs(sample.score - score);
  const spokesman = samples.reduce((best, sample) => (farOff(sample) < farOff(best) ? sample : best));
  const { rationale } = spokesman;
  const shown = { axis, label: rubricOf(axis).label, score, rationale };
  if (!('severity' in spokesman)) return { ...shown, weakness: '' };
  const sd = Math.round(standardDeviation(scores) * 100) / 100;
  return { ...shown, weakness: spokesman.weakness, severity: spokesman.severity, sd };
}
