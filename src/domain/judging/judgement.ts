import {
  axesOfPromptScores,
  gradedAxesOfReply,
  hasReferenceAnswer,
  type JudgeRubric,
  type JudgeRubricAxis,
  judgeRubricVersion,
  judgeSamplingOptions,
  type ReplyScoreAxis,
  type WeaknessSeverity,
} from './rubric.ts';

/** Side of a comparison of two versions. An evaluation of one version only uses the side `version`. */
export type ComparedVersionSide = 'version' | 'baseline';

/** Order in which the judge reads two replies: `AB` begins with the version's reply, `BA` with the baseline's. */
export const replyOrders = ['AB', 'BA'] as const;
export type ReplyOrder = (typeof replyOrders)[number];

export type JudgedTextReference = { kind: 'prompt'; side: ComparedVersionSide } | { kind: 'reply'; caseIndex: number };

/** One call of the judge. Refers to texts, to keep Temporal payloads small. `sample` counts from 1. */
export type JudgeCall =
  | { mode: 'plain'; text: JudgedTextReference }
  | { mode: 'anchored'; text: JudgedTextReference; axis: JudgeRubricAxis; sample: number }
  | { mode: 'pairwise'; caseIndex: number; axis: ReplyScoreAxis; order: ReplyOrder };

export type JudgedTestCase = { caseIndex: number; hasReference: boolean };

export function judgeCallsOfPrompt(rubric: JudgeRubric, side: ComparedVersionSide = 'version'): JudgeCall[] {
  return unitsOfText({ kind: 'prompt', side }, rubric, axesOfPromptScores);
}

export function judgeCallsOfReply(rubric: JudgeRubric, { caseIndex, hasReference }: JudgedTestCase): JudgeCall[] {
  return unitsOfText({ kind: 'reply', caseIndex }, rubric, gradedAxesOfReply(hasReference));
}

export function judgeCallsOfReplyPair({ caseIndex, hasReference }: JudgedTestCase): JudgeCall[] {
  return gradedAxesOfReply(hasReference).flatMap((axis) =>
    replyOrders.map((order) => ({ mode: 'pairwise' as const, caseIndex, axis, order })),
  );
}

export function judgeCallsOfBothPrompts(): JudgeCall[] {
  return [...judgeCallsOfPrompt('plain', 'version'), ...judgeCallsOfPrompt('plain', 'baseline')];
}

function unitsOfText(text: JudgedTextReference, rubric: JudgeRubric, axes: readonly JudgeRubricAxis[]): JudgeCall[] {
  if (rubric === 'plain') return [{ mode: 'plain', text }];
  return axes.flatMap((axis) => samplesOf(rubric).map((sample) => ({ mode: 'anchored' as const, text, axis, sample })));
}

function samplesOf(rubric: JudgeRubric): number[] {
  return Array.from({ length: judgeSamplingOptions[rubric].samples }, (_, index) => index + 1);
}

/**
 * Name of a judge call in `failed_units`, such as `prompt/role_clarity#2`, `baseline prompt` or `case 3/relevance BA`.
 */
export function judgeCallName(unit: JudgeCall): string {
  if (unit.mode === 'pairwise') return `case ${unit.caseIndex + 1}/${unit.axis} ${unit.order}`;
  const text = textName(unit.text);
  return unit.mode === 'plain' ? text : `${text}/${unit.axis}#${unit.sample}`;
}

export function nameOfGeneratedReply(caseIndex: number, side: ComparedVersionSide): string {
  return `case ${caseIndex + 1} ${side === 'version' ? '' : 'baseline '}answer`;
}

function textName(text: JudgedTextReference): string {
  if (text.kind === 'reply') return `case ${text.caseIndex + 1}`;
  return text.side === 'version' ? 'prompt' : 'baseline prompt';
}

/**
 * @returns the maximum number of model calls of an evaluation, including the generated replies; cached verdicts need no
 * call. The up to two repetitions after an invalid answer are not counted.
 * @param cases for each case, whether it has a reference answer
 */
export function maxModelCallsOfEvaluation(
  rubric: JudgeRubric,
  cases: readonly boolean[],
  { withPrompt = true } = {},
): number {
  const ofPrompt = withPrompt ? judgeCallsOfPrompt(rubric).length : 0;
  return cases.reduce(
    (calls, hasReference) => calls + 1 + judgeCallsOfReply(rubric, { caseIndex: 0, hasReference }).length,
    ofPrompt,
  );
}

export function maxModelCallsOfComparison(cases: readonly boolean[]): number {
  return cases.reduce(
    (calls, hasReference) => calls + 2 + judgeCallsOfReplyPair({ caseIndex: 0, hasReference }).length,
    judgeCallsOfBothPrompts().length,
  );
}

export type AgentPromptText = { agentName: string; agentPrompt: string; tags: readonly string[] };

/** `id` only for a golden case. */
export type TestCaseText = { id?: string; input: string; expected: string | null };

export type JudgedReplyText = { persona: string; reply: string };

export type PromptToJudge = AgentPromptText & { kind: 'prompt' };
export type ReplyToJudge = TestCaseText & JudgedReplyText & { kind: 'reply' };
export type ReplyPairToJudge = TestCaseText & { kind: 'pair'; a: JudgedReplyText; b: JudgedReplyText };

export type JudgeCallInput =
  | { mode: 'plain'; material: PromptToJudge | ReplyToJudge }
  | { mode: 'anchored'; axis: JudgeRubricAxis; sample: number; material: PromptToJudge | ReplyToJudge }
  | { mode: 'pairwise'; axis: ReplyScoreAxis; material: ReplyPairToJudge };

export function toReplyPairToJudge(
  order: ReplyOrder,
  { input, expected, version, baseline }: TestCaseText & Record<ComparedVersionSide, JudgedReplyText>,
): ReplyPairToJudge {
  const [a, b] = order === 'AB' ? [version, baseline] : [baseline, version];
  return { kind: 'pair', input, expected, a, b };
}

export type AxisScoreOfPlainMode = { axis: JudgeRubricAxis; rationale: string; score: number };
export type AxisScoreOfAnchoredMode = AxisScoreOfPlainMode & { weakness: string; severity: WeaknessSeverity };
export type WinningReply = 'A' | 'B' | 'tie';

/** A judge's validated verdict after the scoring rules, as stored. Scores are whole numbers, 0 to 5. */
export type Judgement =
  | { mode: 'plain'; scores: AxisScoreOfPlainMode[] }
  | ({ mode: 'anchored' } & AxisScoreOfAnchoredMode)
  | { mode: 'pairwise'; rationale: string; winner: WinningReply };

export type JudgeCallOutcome = { unit: JudgeCall; judgement: Judgement } | { unit: JudgeCall; code: string };

type EvaluationSubject =
  | { kind: 'version'; draftId: string; versionId: string }
  | ({ kind: 'prompt'; userId: string } & AgentPromptText);

/**
 * Everything that the result of an evaluation depends on. Equal specifications of an organization share one evaluation.
 * `draw` identifies a set of generated replies; null for the first set.
 */
export type EvaluationSpecification = SingleEvaluationSpecification | ComparisonSpecification;

/**
 * Documents from which replies are generated: those that the user may read. `state` changes when these do, so that equal
 * requests share a run only while they would get the same replies.
 */
export type DocumentsOfReplies = { userId: string; state: string };

type Judging = {
  documents?: DocumentsOfReplies | undefined;
  evaluatorModel: string;
  generationModel: string;
  rubricVersion: string;
  cases: TestCaseText[];
  draw: string | null;
};

export type SingleEvaluationSpecification = Judging & {
  kind: 'evaluate';
  subject: EvaluationSubject;
  rubric: JudgeRubric;
  judgesPrompt: boolean;
};

export type ComparisonSpecification = Judging & {
  kind: 'compare';
  subject: EvaluationSubject & { kind: 'version' };
  baselineVersionId: string;
  baselineGenerationModel: string;
};

/** Usage reported by providers. `cached` calls cost nothing, nor do models without a known price. */
export type JudgeTokenUsage = {
  calls: number;
  cached: number;
  inputTokens: number;
  completionTokens: number;
  costUsd: number;
};

export const zeroJudgeTokenUsage: JudgeTokenUsage = {
  calls: 0,
  cached: 0,
  inputTokens: 0,
  completionTokens: 0,
  costUsd: 0,
};

export function addJudgeTokenUsage(a: JudgeTokenUsage, b: JudgeTokenUsage): JudgeTokenUsage {
  return {
    calls: a.calls + b.calls,
    cached: a.cached + b.cached,
    inputTokens: a.inputTokens + b.inputTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    costUsd: a.costUsd + b.costUsd,
  };
}

export function formatJudgeTokenUsage({
  calls,
  cached,
  inputTokens,
  completionTokens,
  costUsd,
}: JudgeTokenUsage): string {
  return (
    `${calls} answers, ${cached} from the cache; ` +
    `${inputTokens} input tokens, ${completionTokens} output tokens, ${costUsd.toFixed(4)} US dollars`
  );
}

/**
 * Builds the text whose hash is the cache key of a verdict: rubric, judge, temperature, axis and all texts. The order
 * of two replies follows from their content, so that a comparison with swapped sides finds the same cached verdicts.
 */
export function verdictCacheKeyText(task: JudgeCallInput, evaluatorModel: string): string {
  const { temperature } = judgeSamplingOptions[task.mode];
  const axis = task.mode === 'plain' ? null : task.axis;
  const sample = task.mode === 'anchored' ? task.sample : 1;
  return JSON.stringify([judgeRubricVersion, task.mode, axis, sample, evaluatorModel, temperature, textsOf(task)]);
}

function textsOf({ material }: JudgeCallInput): unknown[] {
  switch (material.kind) {
    case 'prompt':
      return [material.kind, material.agentName, material.agentPrompt, material.tags];
    case 'reply':
      return [material.kind, material.persona, material.input, referenceOf(material.expected), material.reply];
    case 'pair': {
      const { a, b } = material;
      return [material.kind, material.input, referenceOf(material.expected), a.persona, a.reply, b.persona, b.reply];
    }
  }
}

function referenceOf(expected: string | null): string | null {
  return hasReferenceAnswer(expected) ? expected : null;
}
