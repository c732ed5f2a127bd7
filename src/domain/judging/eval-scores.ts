import { isLengthConfounded } from './comparison.ts';
import { isSameFamily } from './model-family.ts';
import type { AxisScore, CaseResult, EvaluationResult, FailedUnit } from './results.ts';
import { maxScore, type Rubric, sampling } from './rubric.ts';
import { meanInterval } from './statistics.ts';

export type ScoredCase = {
  input: string;
  generated_response: string;
  has_reference: boolean;
  response_scores: AxisScore[];
  response_average: number;
};

/** What two versions are compared by: how good a reply is, and how long. */
export type AnsweredCase = Pick<ScoredCase, 'input' | 'generated_response' | 'response_average'>;

/** What is stored with a version as its `eval_scores`, and shown as it is stored. */
export type EvalScores = {
  rubric: Rubric;
  evaluator_model: string;
  generation_model: string;
  prompt_average: number;
  response_average: number;
  overall_average: number;
  /** Within which the mean over cases like these lies with 95 %; null for less than two cases. */
  ci95: [low: number, high: number] | null;
  /** How often each axis was judged. */
  samples: number;
  /** The judge is of the family of the model that it judges, and may favour it. */
  same_family: boolean;
  /** Against the parent's scores of the same cases, length alone could explain who is better. */
  length_confounded: boolean;
  prompt_scores: AxisScore[];
  cases: ScoredCase[];
  failed_units: FailedUnit[];
  rubric_version: string;
  /** ISO 8601. */
  finished_at: string;
};

/** @param evaluation.parent the scores of the version before, where there are such */
export function evalScores(evaluation: {
  result: EvaluationResult;
  rubric: Rubric;
  rubricVersion: string;
  evaluatorModel: string;
  generationModel: string;
  failedUnits: FailedUnit[];
  finishedAt: Date;
  parent: { cases: readonly AnsweredCase[] } | null;
}): EvalScores {
  const { result, rubric, evaluatorModel, generationModel, parent } = evaluation;
  const cases = result.cases.map(scoredCase);
  return {
    rubric,
    evaluator_model: evaluatorModel,
    generation_model: generationModel,
    prompt_average: result.promptAverage,
    response_average: result.responseAverage,
    overall_average: result.overallAverage,
    ci95: interval(cases.map((each) => each.response_average)),
    samples: sampling[rubric].samples,
    same_family: isSameFamily(evaluatorModel, generationModel),
    length_confounded:
      parent !== null && isLengthConfounded(pairCases<AnsweredCase>(cases, parent.cases).map(lengthVerdict)),
    prompt_scores: result.promptScores,
    cases,
    failed_units: evaluation.failedUnits,
    rubric_version: evaluation.rubricVersion,
    finished_at: evaluation.finishedAt.toISOString(),
  };
}

function scoredCase(result: CaseResult): ScoredCase {
  return {
    input: result.input,
    generated_response: result.generatedResponse,
    has_reference: result.hasReference,
    response_scores: result.responseScores,
    response_average: result.responseAverage,
  };
}

function interval(averages: readonly number[]): [number, number] | null {
  const found = meanInterval(averages);
  if (found === null) return null;
  const withinScale = (value: number) => Math.round(Math.min(maxScore, Math.max(0, value)) * 100) / 100;
  return [withinScale(found.low), withinScale(found.high)];
}

export type CasePair<Case> = { version: Case; parent: Case };

/** Cases that both versions have answered, by what was asked; of equal questions, the first with the first. */
export function pairCases<Case extends { input: string }>(
  cases: readonly Case[],
  parents: readonly Case[],
): CasePair<Case>[] {
  const left = [...parents];
  return cases.flatMap((version) => {
    const place = left.findIndex((parent) => parent.input === version.input);
    const [parent] = place < 0 ? [] : left.splice(place, 1);
    return parent === undefined ? [] : [{ version, parent }];
  });
}

function lengthVerdict({ version, parent }: CasePair<AnsweredCase>) {
  const difference = version.response_average - parent.response_average;
  const better = difference > 0 ? ('version' as const) : ('baseline' as const);
  return {
    version: version.generated_response.length,
    baseline: parent.generated_response.length,
    winner: difference === 0 ? ('tie' as const) : better,
  };
}
