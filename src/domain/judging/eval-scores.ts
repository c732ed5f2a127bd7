import { isWinnerExplainedByLength } from './comparison.ts';
import type { AxisScore, EvaluationResult, FailedJudgeCall, TestCaseResult } from './outcome.ts';
import { type JudgeRubric, judgeSamplingOptions, maxJudgeScore } from './rubric.ts';
import { meanConfidenceInterval } from './statistics.ts';

/** Model families by parts of model names. A distilled model belongs to both families in its name. */
const families: readonly [family: string, names: RegExp][] = [
  ['openai', /\bgpt|\bchatgpt|\bo[134]\b|davinci|codex/],
  ['anthropic', /claude/],
  ['google', /gemini|gemma|palm\b/],
  ['meta', /llama/],
  ['mistral', /mistral|mixtral|ministral|magistral|codestral|devstral|pixtral/],
  ['alibaba', /qwen|qwq/],
  ['deepseek', /deepseek/],
  ['microsoft', /\bphi\b|\bphi-?\d|wizardlm/],
  ['cohere', /command|aya\b|cohere/],
  ['xai', /grok/],
  ['amazon', /\bnova\b|titan/],
  ['zhipu', /\bglm|chatglm/],
  ['moonshot', /kimi|moonshot/],
  ['ibm', /granite/],
  ['nvidia', /nemotron/],
  ['ai21', /jamba|jurassic/],
  ['01', /\byi\b/],
  ['tencent', /hunyuan/],
  ['minimax', /minimax|abab/],
  ['baidu', /ernie/],
  ['bytedance', /doubao|\bseed\b/],
  ['allenai', /olmo|tulu/],
];

/**
 * True if judge and generator belong to the same model family, because judges favour texts of their own family. Models
 * of unknown families are compared by name, ignoring the provider.
 */
export function isSameModelFamily(evaluator: string, generator: string): boolean {
  const own = familiesOf(evaluator);
  const others = familiesOf(generator);
  if (own.length === 0 || others.length === 0) return bareName(evaluator) === bareName(generator);
  return own.some((family) => others.includes(family));
}

function familiesOf(model: string): string[] {
  const name = bareName(model);
  return families.filter(([, names]) => names.test(name)).map(([family]) => family);
}

function bareName(model: string): string {
  return model.toLowerCase().replace(/^.*\//, '').replace(/:.*$/, '');
}

type ScoredCase = {
  /** Null for a case that is no golden case. */
  id: string | null;
  reference_answer: string;
  input: string;
  generated_response: string;
  has_reference: boolean;
  response_scores: AxisScore[];
  response_average: number;
};

export type AnsweredCase = Pick<ScoredCase, 'input' | 'generated_response' | 'response_average'>;

export type EvalScores = {
  rubric: JudgeRubric;
  evaluator_model: string;
  generation_model: string;
  prompt_average: number;
  response_average: number;
  overall_average: number;
  ci95: [low: number, high: number] | null;
  samples: number;
  with_documents: boolean;
  same_family: boolean;
  length_confounded: boolean;
  prompt_scores: AxisScore[];
  cases: ScoredCase[];
  failed_units: FailedJudgeCall[];
  rubric_version: string;
  finished_at: string;
};

export function toEvalScores(evaluation: {
  result: EvaluationResult;
  rubric: JudgeRubric;
  rubricVersion: string;
  evaluatorModel: string;
  generationModel: string;
  failedUnits: FailedJudgeCall[];
  withDocuments: boolean;
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
    samples: judgeSamplingOptions[rubric].samples,
    with_documents: evaluation.withDocuments,
    same_family: isSameModelFamily(evaluatorModel, generationModel),
    length_confounded:
      parent !== null && isWinnerExplainedByLength(pairTestCases<AnsweredCase>(cases, parent.cases).map(lengthVerdict)),
    prompt_scores: result.promptScores,
    cases,
    failed_units: evaluation.failedUnits,
    rubric_version: evaluation.rubricVersion,
    finished_at: evaluation.finishedAt.toISOString(),
  };
}

function scoredCase(result: TestCaseResult): ScoredCase {
  return {
    id: result.id ?? null,
    reference_answer: result.expected ?? '',
    input: result.input,
    generated_response: result.generatedResponse,
    has_reference: result.hasReference,
    response_scores: result.responseScores,
    response_average: result.responseAverage,
  };
}

function interval(averages: readonly number[]): [number, number] | null {
  const found = meanConfidenceInterval(averages);
  if (found === null) return null;
  const withinScale = (value: number) => Math.round(Math.min(maxJudgeScore, Math.max(0, value)) * 100) / 100;
  return [withinScale(found.low), withinScale(found.high)];
}

export type TestCasePair<Case> = { version: Case; parent: Case };

export function pairTestCases<Case extends { input: string }>(
  cases: readonly Case[],
  parents: readonly Case[],
): TestCasePair<Case>[] {
  const left = [...parents];
  return cases.flatMap((version) => {
    const index = left.findIndex((parent) => parent.input === version.input);
    const [parent] = index < 0 ? [] : left.splice(index, 1);
    return parent === undefined ? [] : [{ version, parent }];
  });
}

function lengthVerdict({ version, parent }: TestCasePair<AnsweredCase>) {
  const difference = version.response_average - parent.response_average;
  const better = difference > 0 ? ('version' as const) : ('baseline' as const);
  return {
    version: version.generated_response.length,
    baseline: parent.generated_response.length,
    winner: difference === 0 ? ('tie' as const) : better,
  };
}
