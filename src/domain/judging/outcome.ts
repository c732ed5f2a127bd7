import {
  type ComparedTestCase,
  type ComparisonStatistics,
  type ComparisonSummary,
  compareScoresByAxis,
  computeComparisonStatistics,
  summarizeComparisons,
} from './comparison.ts';
import {
  type AxisScoreOfAnchoredMode,
  type AxisScoreOfPlainMode,
  type ComparedVersionSide,
  type ComparisonSpecification,
  type EvaluationSpecification,
  type JudgeCall,
  type JudgeCallOutcome,
  type Judgement,
  judgeCallName,
  judgeCallsOfPrompt,
  judgeCallsOfReply,
  judgeCallsOfReplyPair,
  nameOfGeneratedReply,
  type SingleEvaluationSpecification,
  type TestCaseText,
} from './judgement.ts';
import {
  axesOfPromptScores,
  gradedAxesOfReply,
  hasReferenceAnswer,
  type JudgeRubricAxis,
  rubricOfAxis,
  type WeaknessSeverity,
} from './rubric.ts';
import { meanScore, standardDeviation } from './statistics.ts';

export const evaluationStatuses = ['queued', 'running', 'completed', 'partial', 'failed', 'canceled'] as const;
/**
 * Status of a version's evaluation; null before the first one. It goes from `queued` over `running` to a final status,
 * or directly to `completed` if all verdicts are cached. A new evaluation starts again at `queued`.
 */
export type EvaluationStatus = (typeof evaluationStatuses)[number];

/**
 * Final status of an evaluation: `completed` without failed judge calls; `partial` if at least half of the cases and,
 * if a prompt is judged, one of its axes were judged; otherwise `failed`.
 * @param run.judgedAxes judged axes of the prompt; null if the evaluation does not judge a prompt
 */
export function finalEvaluationStatus(run: {
  failedUnits: number;
  judgedAxes: number | null;
  cases: number;
  judgedCases: number;
}): 'completed' | 'partial' | 'failed' {
  if (run.failedUnits === 0) return 'completed';
  const isEnough = run.judgedAxes !== 0 && run.judgedCases * 2 >= run.cases;
  return isEnough ? 'partial' : 'failed';
}

export type ComparisonResult = {
  versionPromptScores: AxisScore[];
  baselinePromptScores: AxisScore[];
  versionPromptAverage: number;
  baselinePromptAverage: number;
  cases: ComparedTestCase[];
  summary: ComparisonSummary;
  statistics: ComparisonStatistics;
};

export type EvaluationResultWithKind = { kind: 'evaluate' } & EvaluationResult;
export type ComparisonResultWithKind = { kind: 'compare' } & ComparisonResult;

type Found = {
  verdicts: ReadonlyMap<string, Judgement>;
  answers: ReadonlyMap<string, string>;
  failed: readonly FailedJudgeCall[];
};

type EvaluationOutcome = {
  results: EvaluationResultWithKind | ComparisonResultWithKind;
  failedUnits: FailedJudgeCall[];
  status: 'completed' | 'partial' | 'failed';
};

/**
 * Aggregates the stored verdicts of an evaluation into its result. A pure function, so that `verify` can repeat it.
 */
export function evaluationOutcomeOf(specification: EvaluationSpecification, found: Found): EvaluationOutcome {
  return specification.kind === 'compare' ? compared(specification, found) : evaluated(specification, found);
}

function evaluated(specification: SingleEvaluationSpecification, found: Found): EvaluationOutcome {
  const { rubric, judgesPrompt, cases } = specification;
  const lookUp = lookUpIn(found);
  const ofPrompt = judgesPrompt ? judgeCallsOfPrompt(rubric).map(lookUp.verdict) : [];
  const ofCases = cases.map((each, caseIndex) => {
    const answer = lookUp.answer(caseIndex, 'version');
    if (typeof answer !== 'string') return { missing: [answer], result: null };
    const hasReference = hasReferenceAnswer(each.expected);
    const outcomes = judgeCallsOfReply(rubric, { caseIndex, hasReference }).map(lookUp.verdict);
    const golden = each.id === undefined ? {} : { id: each.id, expected: each.expected };
    const { input } = each;
    const result = buildTestCaseResult({ ...golden, input, generatedResponse: answer, hasReference }, outcomes);
    return { missing: listFailedJudgeCalls(outcomes), result };
  });
  const judged = ofCases.flatMap(({ result }) => (result === null ? [] : [result]));
  const scores = computePromptAxisScores(ofPrompt);
  const missing = [...listFailedJudgeCalls(ofPrompt), ...ofCases.flatMap((each) => each.missing)];
  return {
    results: { kind: 'evaluate', ...buildEvaluationResult(scores, judged) },
    failedUnits: missing,
    status: finalEvaluationStatus({
      failedUnits: missing.length,
      judgedAxes: judgesPrompt ? scores.length : null,
      cases: cases.length,
      judgedCases: judged.length,
    }),
  };
}

function compared({ cases }: ComparisonSpecification, found: Found): EvaluationOutcome {
  const lookUp = lookUpIn(found);
  const ofVersion = judgeCallsOfPrompt('plain', 'version').map(lookUp.verdict);
  const ofBaseline = judgeCallsOfPrompt('plain', 'baseline').map(lookUp.verdict);
  const [versionPromptScores, baselinePromptScores] = [
    computePromptAxisScores(ofVersion),
    computePromptAxisScores(ofBaseline),
  ];
  const ofCases = cases.map((each, caseIndex) => comparedCase(each, caseIndex, lookUp));
  const judged = ofCases.flatMap(({ result }) => (result === null ? [] : [result]));
  const missing = [...listFailedJudgeCalls([...ofVersion, ...ofBaseline]), ...ofCases.flatMap((each) => each.missing)];
  return {
    results: {
      kind: 'compare',
      versionPromptScores,
      baselinePromptScores,
      versionPromptAverage: averageOf(versionPromptScores),
      baselinePromptAverage: averageOf(baselinePromptScores),
      cases: judged,
      summary: summarizeComparisons(judged),
      statistics: computeComparisonStatistics(judged),
    },
    failedUnits: missing,
    status: finalEvaluationStatus({
      failedUnits: missing.length,
      judgedAxes: Math.min(versionPromptScores.length, baselinePromptScores.length),
      cases: cases.length,
      judgedCases: judged.length,
    }),
  };
}

function comparedCase({ input, expected }: TestCaseText, caseIndex: number, lookUp: ReturnType<typeof lookUpIn>) {
  const [version, baseline] = [lookUp.answer(caseIndex, 'version'), lookUp.answer(caseIndex, 'baseline')];
  if (typeof version !== 'string' || typeof baseline !== 'string') {
    return { missing: [version, baseline].filter((answer) => typeof answer !== 'string'), result: null };
  }
  const hasReference = hasReferenceAnswer(expected);
  const axes = gradedAxesOfReply(hasReference);
  const outcomes = judgeCallsOfReplyPair({ caseIndex, hasReference }).map(lookUp.verdict);
  const comparisons = compareScoresByAxis(outcomes, axes);
  const isWhole = comparisons.length === axes.length;
  return {
    missing: listFailedJudgeCalls(outcomes),
    result: isWhole ? { input, versionResponse: version, baselineResponse: baseline, comparisons } : null,
  };
}

function lookUpIn({ verdicts, answers, failed }: Found) {
  const codes = new Map(failed.map(({ unit, code }) => [unit, code]));
  // The code `eval_incomplete` means that a judge call has neither a verdict nor a failure, for example because the
  // cache entry was deleted. The next evaluation calls the judge again.
  const codeOf = (unit: string) => codes.get(unit) ?? 'eval_incomplete';
  return {
    verdict(unit: JudgeCall): JudgeCallOutcome {
      const name = judgeCallName(unit);
      const judgement = verdicts.get(name);
      return judgement === undefined ? { unit, code: codeOf(name) } : { unit, judgement };
    },
    answer(caseIndex: number, side: ComparedVersionSide): string | FailedJudgeCall {
      const unit = nameOfGeneratedReply(caseIndex, side);
      return answers.get(unit) ?? { unit, code: codeOf(unit) };
    },
  };
}

/** Score of one axis. Only the anchored rubric has `severity` and `sd` (standard deviation of the samples). */
export type AxisScore = {
  axis: JudgeRubricAxis;
  label: string;
  score: number;
  rationale: string;
  weakness: string;
  severity?: WeaknessSeverity;
  sd?: number;
};

/** `id` and `expected` (the reference answer) only for a golden case. */
export type TestCaseResult = {
  id?: string;
  expected?: string | null;
  input: string;
  generatedResponse: string;
  hasReference: boolean;
  responseScores: AxisScore[];
  responseAverage: number;
};

export type EvaluationResult = {
  promptScores: AxisScore[];
  promptAverage: number;
  cases: TestCaseResult[];
  responseAverage: number;
  /** Mean of the prompt and response averages, or the only one of them that exists. */
  overallAverage: number;
};

export type FailedJudgeCall = { unit: string; code: string };

export function computePromptAxisScores(outcomes: readonly JudgeCallOutcome[]): AxisScore[] {
  return axisScores(outcomes, axesOfPromptScores);
}

/** @returns the scores of a reply; null unless every axis has a verdict, because averages would not be comparable */
export function buildTestCaseResult(
  answered: Omit<TestCaseResult, 'responseScores' | 'responseAverage'>,
  outcomes: readonly JudgeCallOutcome[],
): TestCaseResult | null {
  const axes = gradedAxesOfReply(answered.hasReference);
  const responseScores = axisScores(outcomes, axes);
  if (responseScores.length < axes.length) return null;
  return { ...answered, responseScores, responseAverage: averageOf(responseScores) };
}

export function buildEvaluationResult(promptScores: AxisScore[], cases: TestCaseResult[]): EvaluationResult {
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

function averageOf(scores: readonly AxisScore[]): number {
  return meanScore(scores.map(({ score }) => score)) ?? 0;
}

export function listFailedJudgeCalls(outcomes: readonly JudgeCallOutcome[]): FailedJudgeCall[] {
  return outcomes.flatMap((outcome) =>
    'code' in outcome ? [{ unit: judgeCallName(outcome.unit), code: outcome.code }] : [],
  );
}

export function namesOfFailedJudgeCalls(failed: readonly FailedJudgeCall[]): string {
  const names = failed.slice(0, 10).map(({ unit, code }) => `${unit} (${code})`);
  return failed.length > names.length ? `${names.join(', ')}, … (${failed.length} in all)` : names.join(', ');
}

function axisScores(outcomes: readonly JudgeCallOutcome[], axes: readonly JudgeRubricAxis[]): AxisScore[] {
  const verdicts = outcomes.flatMap((outcome) => ('judgement' in outcome ? verdictsIn(outcome.judgement) : []));
  return axes.flatMap((axis) => {
    const samples = verdicts.filter((verdict) => verdict.axis === axis);
    const [first] = samples;
    return first === undefined ? [] : [axisScore(axis, [first, ...samples.slice(1)])];
  });
}

function verdictsIn(judgement: Judgement): (AxisScoreOfPlainMode | AxisScoreOfAnchoredMode)[] {
  if (judgement.mode === 'pairwise') return [];
  return judgement.mode === 'plain' ? judgement.scores : [judgement];
}

/** Takes the rationale and weakness of an axis from the first sample nearest to the mean score. */
function axisScore(
  axis: JudgeRubricAxis,
  samples: [AxisScoreOfPlainMode | AxisScoreOfAnchoredMode, ...(AxisScoreOfPlainMode | AxisScoreOfAnchoredMode)[]],
): AxisScore {
  const scores = samples.map((sample) => sample.score);
  const score = meanScore(scores) ?? 0;
  const distance = (sample: AxisScoreOfPlainMode) => Math.abs(sample.score - score);
  const representative = samples.reduce((best, sample) => (distance(sample) < distance(best) ? sample : best));
  const { rationale } = representative;
  const shown = { axis, label: rubricOfAxis(axis).label, score, rationale };
  if (!('severity' in representative)) return { ...shown, weakness: '' };
  const sd = Math.round(standardDeviation(scores) * 100) / 100;
  return { ...shown, weakness: representative.weakness, severity: representative.severity, sd };
}
