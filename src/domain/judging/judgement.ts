import {
  type Axis,
  axesOfReply,
  isReference,
  judgeSampling,
  promptAxes,
  type ResponseAxis,
  type Rubric,
  rubricVersion,
  type Severity,
} from './rubric.ts';

/** Side of a comparison of two versions. An evaluation of one version only uses the side `version`. */
export type ComparedSide = 'version' | 'baseline';

/** Order in which the judge reads two replies: `AB` begins with the version's reply, `BA` with the baseline's. */
export const pairOrders = ['AB', 'BA'] as const;
export type PairOrder = (typeof pairOrders)[number];

export type TextRef = { kind: 'prompt'; side: ComparedSide } | { kind: 'reply'; caseIndex: number };

/**
 * One call of the judge. It refers to texts instead of containing them, to keep Temporal payloads small. `sample`
 * counts from 1.
 */
export type JudgingUnit =
  | { mode: 'plain'; text: TextRef }
  | { mode: 'anchored'; text: TextRef; axis: Axis; sample: number }
  | { mode: 'pairwise'; caseIndex: number; axis: ResponseAxis; order: PairOrder };

export type JudgedCase = { caseIndex: number; hasReference: boolean };

export function unitsOfPrompt(rubric: Rubric, side: ComparedSide = 'version'): JudgingUnit[] {
  return unitsOfText({ kind: 'prompt', side }, rubric, promptAxes);
}

export function unitsOfReply(rubric: Rubric, { caseIndex, hasReference }: JudgedCase): JudgingUnit[] {
  return unitsOfText({ kind: 'reply', caseIndex }, rubric, axesOfReply(hasReference));
}

export function unitsOfPair({ caseIndex, hasReference }: JudgedCase): JudgingUnit[] {
  return axesOfReply(hasReference).flatMap((axis) =>
    pairOrders.map((order) => ({ mode: 'pairwise' as const, caseIndex, axis, order })),
  );
}

export function unitsOfBothPrompts(): JudgingUnit[] {
  return [...unitsOfPrompt('plain', 'version'), ...unitsOfPrompt('plain', 'baseline')];
}

function unitsOfText(text: TextRef, rubric: Rubric, axes: readonly Axis[]): JudgingUnit[] {
  if (rubric === 'plain') return [{ mode: 'plain', text }];
  return axes.flatMap((axis) => samplesOf(rubric).map((sample) => ({ mode: 'anchored' as const, text, axis, sample })));
}

function samplesOf(rubric: Rubric): number[] {
  return Array.from({ length: judgeSampling[rubric].samples }, (_, index) => index + 1);
}

/**
 * Formats the name of a judge call for `failed_units` and operators: `prompt/role_clarity#2`, `baseline prompt`, `case
 * 3/relevance BA`.
 */
export function unitName(unit: JudgingUnit): string {
  if (unit.mode === 'pairwise') return `case ${unit.caseIndex + 1}/${unit.axis} ${unit.order}`;
  const text = textName(unit.text);
  return unit.mode === 'plain' ? text : `${text}/${unit.axis}#${unit.sample}`;
}

export function answerName(caseIndex: number, side: ComparedSide): string {
  return `case ${caseIndex + 1} ${side === 'version' ? '' : 'baseline '}answer`;
}

function textName(text: TextRef): string {
  if (text.kind === 'reply') return `case ${text.caseIndex + 1}`;
  return text.side === 'version' ? 'prompt' : 'baseline prompt';
}

/**
 * @returns the maximum number of model calls of an evaluation, including the generated replies; cached verdicts need no
 * call. The up to two repetitions after an invalid answer are not counted.
 * @param cases for each case, whether it has a reference answer
 */
export function callsOfEvaluation(rubric: Rubric, cases: readonly boolean[], { withPrompt = true } = {}): number {
  const ofPrompt = withPrompt ? unitsOfPrompt(rubric).length : 0;
  return cases.reduce(
    (calls, hasReference) => calls + 1 + unitsOfReply(rubric, { caseIndex: 0, hasReference }).length,
    ofPrompt,
  );
}

export function callsOfComparison(cases: readonly boolean[]): number {
  return cases.reduce(
    (calls, hasReference) => calls + 2 + unitsOfPair({ caseIndex: 0, hasReference }).length,
    unitsOfBothPrompts().length,
  );
}

export type PromptText = { agentName: string; agentPrompt: string; tags: readonly string[] };

export type CaseText = { input: string; expected: string | null };

/** A version's reply to a test case. `persona` is the version's prompt, against which the reply is judged. */
export type ReplyText = { persona: string; reply: string };

export type PromptMaterial = PromptText & { kind: 'prompt' };
export type ReplyMaterial = CaseText & ReplyText & { kind: 'reply' };
/** Two replies to compare. The judge reads `a` first. */
export type PairMaterial = CaseText & { kind: 'pair'; a: ReplyText; b: ReplyText };

export type JudgeTask =
  | { mode: 'plain'; material: PromptMaterial | ReplyMaterial }
  | { mode: 'anchored'; axis: Axis; sample: number; material: PromptMaterial | ReplyMaterial }
  | { mode: 'pairwise'; axis: ResponseAxis; material: PairMaterial };

export function pairMaterial(
  order: PairOrder,
  { input, expected, version, baseline }: CaseText & Record<ComparedSide, ReplyText>,
): PairMaterial {
  const [a, b] = order === 'AB' ? [version, baseline] : [baseline, version];
  return { kind: 'pair', input, expected, a, b };
}

export type PlainScore = { axis: Axis; rationale: string; score: number };
export type AnchoredScore = PlainScore & { weakness: string; severity: Severity };
/** Winner of a comparison; `A` is the reply that the judge read first. */
export type PairWinner = 'A' | 'B' | 'tie';

/** A judge's validated verdict after the scoring rules, as stored. Scores are whole numbers, 0 to 5. */
export type Judgement =
  | { mode: 'plain'; scores: PlainScore[] }
  | ({ mode: 'anchored' } & AnchoredScore)
  | { mode: 'pairwise'; rationale: string; winner: PairWinner };

export type UnitOutcome = { unit: JudgingUnit; judgement: Judgement } | { unit: JudgingUnit; code: string };

type EvaluationSubject =
  | { kind: 'version'; draftId: string; versionId: string }
  | ({ kind: 'prompt'; userId: string } & PromptText);

/**
 * Everything that the result of an evaluation depends on. Equal specifications of an organization share one evaluation.
 * `draw` identifies a set of generated replies; null for the first set.
 */
export type EvaluationSpecification = EvaluatedSpecification | ComparedSpecification;

type Judging = {
  evaluatorModel: string;
  generationModel: string;
  rubricVersion: string;
  cases: CaseText[];
  draw: string | null;
};

export type EvaluatedSpecification = Judging & {
  kind: 'evaluate';
  subject: EvaluationSubject;
  rubric: Rubric;
  judgesPrompt: boolean;
};

export type ComparedSpecification = Judging & {
  kind: 'compare';
  subject: EvaluationSubject & { kind: 'version' };
  baselineVersionId: string;
  baselineGenerationModel: string;
};

/**
 * Model usage as reported by the providers. `calls` counts answers, `cached` those that came from the cache at no cost.
 * Models without a known price cost 0.
 */
export type Spending = {
  calls: number;
  cached: number;
  inputTokens: number;
  completionTokens: number;
  costUsd: number;
};

export const zeroSpending: Spending = { calls: 0, cached: 0, inputTokens: 0, completionTokens: 0, costUsd: 0 };

export function addSpending(a: Spending, b: Spending): Spending {
  return {
    calls: a.calls + b.calls,
    cached: a.cached + b.cached,
    inputTokens: a.inputTokens + b.inputTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    costUsd: a.costUsd + b.costUsd,
  };
}

export function spendingLine({ calls, cached, inputTokens, completionTokens, costUsd }: Spending): string {
  return (
    `${calls} answers, ${cached} from the cache; ` +
    `${inputTokens} input tokens, ${completionTokens} output tokens, ${costUsd.toFixed(4)} US dollars`
  );
}

/**
 * Builds the text whose hash is the cache key of a verdict: rubric, judge, temperature, axis and all texts. The order
 * of two replies follows from their content, so that a comparison with swapped sides finds the same cached verdicts.
 */
export function cacheKeyText(task: JudgeTask, evaluatorModel: string): string {
  const { temperature } = judgeSampling[task.mode];
  const axis = task.mode === 'plain' ? null : task.axis;
  const sample = task.mode === 'anchored' ? task.sample : 1;
  return JSON.stringify([rubricVersion, task.mode, axis, sample, evaluatorModel, temperature, textsOf(task)]);
}

function textsOf({ material }: JudgeTask): unknown[] {
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
  return isReference(expected) ? expected : null;
}
