import { axesOfReply, promptAxes, type Axis, rubricOf } from './axes.ts';
import { meanScore, spread } from './averages.ts';
import type { Judgement } from './judgement.ts';
import type { Rubric, Severity } from './rubric.ts';
import { type Unit, unitName } from './units.ts';

/** `severity` and `spread` (standard deviation of the samples) with the anchored rubric only. */
export type AxisScore = {
  axis: Axis;
  label: string;
  /** 0 to 5, the mean of the samples, two decimals. */
  score: number;
  rationale: string;
  weakness: string;
  severity?: Severity;
  spread?: number;
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
  /** The mean of both averages; that of the prompt without cases. */
  overallAverage: number;
};

/** A unit without a verdict: which, and the code of the error that it ended with. */
export type FailedUnit = { unit: string; code: string };

/** A unit as it ended: with what the judge found, or with the code of an error. */
export type UnitOutcome = { unit: Unit; judgement: Judgement } | { unit: Unit; error: string };

export type JudgedCaseOutcome = {
  input: string;
  hasReference: boolean;
  /** Null where none could be generated: then `error` says why and there are no outcomes. */
  generatedResponse: string | null;
  error?: string;
  outcomes: readonly UnitOutcome[];
};
