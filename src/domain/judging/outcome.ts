import { axesOfReply, isReference } from './axes.ts';
import {
  axisComparisons,
  type ComparedCase,
  type ComparisonStatistics,
  type ComparisonSummary,
  comparisonStatistics,
  summarize,
} from './comparison.ts';
import type {
  CaseText,
  ComparedSpecification,
  EvaluatedSpecification,
  EvaluationSpecification,
  Judgement,
} from './judgement.ts';
import {
  type AxisScore,
  averageOf,
  caseResult,
  type EvaluationResult,
  evaluationResult,
  type FailedUnit,
  failedUnits,
  promptScores,
  type UnitOutcome,
} from './results.ts';
import { answerName, type Side, type Unit, unitName, unitsOfPair, unitsOfPrompt, unitsOfReply } from './units.ts';

export const evalStatuses = ['queued', 'running', 'completed', 'partial', 'failed', 'canceled'] as const;
/**
 * Status of a version's evaluation; null before the first one. Goes from `queued` over `running` to a final status, or directly
 * to `completed` if everything is cached. A new evaluation starts again at `queued`.
 */
export type EvalStatus = (typeof evalStatuses)[number];

/**
 * Final status of a run: `completed` without failed units; `partial` if at least half of the cases and, if a prompt is
 * judged, one of its axes were judged; otherwise `failed`.
 * @param run.judgedAxes axes of the prompt; null if the run does not judge a prompt
 */
export function endOf(run: {
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
  cases: ComparedCase[];
  summary: ComparisonSummary;
  statistics: ComparisonStatistics;
};

export type EvaluationResults = { kind: 'evaluate' } & EvaluationResult;
export type ComparisonResults = { kind: 'compare' } & ComparisonResult;

/** Stored results of a run, by unit name. */
export type Found = {
  verdicts: ReadonlyMap<string, Judgement>;
  answers: ReadonlyMap<string, string>;
  failed: readonly FailedUnit[];
};

export type EvaluationOutcome = {
  results: EvaluationResults | ComparisonResults;
  failedUnits: FailedUnit[];
  status: 'completed' | 'partial' | 'failed';
};

/** Aggregates the results of a run. A pure function, so that `verify` can repeat it. */
export function outcomeOf(specification: EvaluationSpecification, found: Found): EvaluationOutcome {
  return specification.kind === 'compare' ? compared(specification, found) : evaluated(specification, found);
}

function evaluated(specification: EvaluatedSpecification, found: Found): EvaluationOutcome {
  const { rubric, judgesPrompt, cases } = specification;
  const lookUp = lookUpIn(found);
  const ofPrompt = judgesPrompt ? unitsOfPrompt(rubric).map(lookUp.verdict) : [];
  const ofCases = cases.map((each, caseIndex) => {
    const answer = lookUp.answer(caseIndex, 'version');
    if (typeof answer !== 'string') return { missing: [answer], result: null };
    const hasReference = isReference(each.expected);
    const outcomes = unitsOfReply(rubric, { caseIndex, hasReference }).map(lookUp.verdict);
    const result = caseResult({ input: each.input, generatedResponse: answer, hasReference }, outcomes);
    return { missing: failedUnits(outcomes), result };
  });
  const judged = ofCases.flatMap(({ result }) => (result === null ? [] : [result]));
  const scores = promptScores(ofPrompt);
  const missing = [...failedUnits(ofPrompt), ...ofCases.flatMap((each) => each.missing)];
  return {
    results: { kind: 'evaluate', ...evaluationResult(scores, judged) },
    failedUnits: missing,
    status: endOf({
      failedUnits: missing.length,
      judgedAxes: judgesPrompt ? scores.length : null,
      cases: cases.length,
      judgedCases: judged.length,
    }),
  };
}

function compared({ cases }: ComparedSpecification, found: Found): EvaluationOutcome {
  const lookUp = lookUpIn(found);
  const ofVersion = unitsOfPrompt('plain', 'version').map(lookUp.verdict);
  const ofBaseline = unitsOfPrompt('plain', 'baseline').map(lookUp.verdict);
  const [versionPromptScores, baselinePromptScores] = [promptScores(ofVersion), promptScores(ofBaseline)];
  const ofCases = cases.map((each, caseIndex) => comparedCase(each, caseIndex, lookUp));
  const judged = ofCases.flatMap(({ result }) => (result === null ? [] : [result]));
  const missing = [...failedUnits([...ofVersion, ...ofBaseline]), ...ofCases.flatMap((each) => each.missing)];
  return {
    results: {
      kind: 'compare',
      versionPromptScores,
      baselinePromptScores,
      versionPromptAverage: averageOf(versionPromptScores),
      baselinePromptAverage: averageOf(baselinePromptScores),
      cases: judged,
      summary: summarize(judged),
      statistics: comparisonStatistics(judged),
    },
    failedUnits: missing,
    status: endOf({
      failedUnits: missing.length,
      judgedAxes: Math.min(versionPromptScores.length, baselinePromptScores.length),
      cases: cases.length,
      judgedCases: judged.length,
    }),
  };
}

function comparedCase({ input, expected }: CaseText, caseIndex: number, lookUp: ReturnType<typeof lookUpIn>) {
  const [version, baseline] = [lookUp.answer(caseIndex, 'version'), lookUp.answer(caseIndex, 'baseline')];
  if (typeof version !== 'string' || typeof baseline !== 'string') {
    return { missing: [version, baseline].filter((answer) => typeof answer !== 'string'), result: null };
  }
  const hasReference = isReference(expected);
  const axes = axesOfReply(hasReference);
  const outcomes = unitsOfPair({ caseIndex, hasReference }).map(lookUp.verdict);
  const comparisons = axisComparisons(outcomes, axes);
  const isWhole = comparisons.length === axes.length;
  return {
    missing: failedUnits(outcomes),
    result: isWhole ? { input, versionResponse: version, baselineResponse: baseline, comparisons } : null,
  };
}

function lookUpIn({ verdicts, answers, failed }: Found) {
  const codes = new Map(failed.map(({ unit, code }) => [unit, code]));
  // Neither a result nor a failure is stored, for example after the cache entry was deleted: judged again next time.
  const codeOf = (unit: string) => codes.get(unit) ?? 'eval_incomplete';
  return {
    verdict(unit: Unit): UnitOutcome {
      const name = unitName(unit);
      const judgement = verdicts.get(name);
      return judgement === undefined ? { unit, code: codeOf(name) } : { unit, judgement };
    },
    answer(caseIndex: number, side: Side): string | FailedUnit {
      const unit = answerName(caseIndex, side);
      return answers.get(unit) ?? { unit, code: codeOf(unit) };
    },
  };
}
