import { type Axis, isReference, type ResponseAxis } from './axes.ts';
import { type Rubric, rubricVersion, type Severity, sampling } from './rubric.ts';
import type { PairOrder, Side } from './units.ts';

export type PromptText = { agentName: string; agentPrompt: string; tags: readonly string[] };

/** `expected` is null without a reference answer. */
export type CaseText = { input: string; expected: string | null };

/** The reply of a version to a case; `persona` is its prompt, against which the reply is judged. */
export type ReplyText = { persona: string; reply: string };

export type PromptMaterial = PromptText & { kind: 'prompt' };
export type ReplyMaterial = CaseText & ReplyText & { kind: 'reply' };
/** The judge reads `a` first. */
export type PairMaterial = CaseText & { kind: 'pair'; a: ReplyText; b: ReplyText };

/** A unit with its texts: everything that the verdict depends on. */
export type JudgeTask =
  | { mode: 'plain'; material: PromptMaterial | ReplyMaterial }
  | { mode: 'anchored'; axis: Axis; sample: number; material: PromptMaterial | ReplyMaterial }
  | { mode: 'pairwise'; axis: ResponseAxis; material: PairMaterial };

/** Puts the two replies into the given order. */
export function pairMaterial(
  order: PairOrder,
  { input, expected, version, baseline }: CaseText & Record<Side, ReplyText>,
): PairMaterial {
  const [a, b] = order === 'AB' ? [version, baseline] : [baseline, version];
  return { kind: 'pair', input, expected, a, b };
}

export type PlainScore = { axis: Axis; rationale: string; score: number };
export type AnchoredScore = PlainScore & { weakness: string; severity: Severity };
/** A is the reply that the judge read first. */
export type PairWinner = 'A' | 'B' | 'tie';

/** A validated verdict after the scoring rules, as stored for a unit. Scores are whole numbers, 0 to 5. */
export type Judgement =
  | { mode: 'plain'; scores: PlainScore[] }
  | ({ mode: 'anchored' } & AnchoredScore)
  | { mode: 'pairwise'; rationale: string; winner: PairWinner };

/** The evaluated prompt: a version of a draft, or a prompt sent with the request. */
export type EvaluationSubject =
  | { kind: 'version'; draftId: string; versionId: string }
  | ({ kind: 'prompt'; userId: string } & PromptText);

/**
 * Everything that the result of a run depends on. Equal specifications of an organization share one run. `draw` identifies a
 * set of generated answers; null for the first set.
 */
export type EvaluationSpecification = EvaluatedSpecification | ComparedSpecification;

type Judging = {
  evaluatorModel: string;
  /** The model that answers the cases. */
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
 * Usage of models as their providers report it. `calls` counts answers, `cached` those that came from the cache at no cost.
 * Models without a price cost 0.
 */
export type Spending = {
  calls: number;
  cached: number;
  inputTokens: number;
  completionTokens: number;
  costUsd: number;
};

export const nothingSpent: Spending = { calls: 0, cached: 0, inputTokens: 0, completionTokens: 0, costUsd: 0 };

export function plusSpending(a: Spending, b: Spending): Spending {
  return {
    calls: a.calls + b.calls,
    cached: a.cached + b.cached,
    inputTokens: a.inputTokens + b.inputTokens,
    completionTokens: a.completionTokens + b.completionTokens,
    costUsd: a.costUsd + b.costUsd,
  };
}

/** One line for operators. */
export function spendingLine({ calls, cached, inputTokens, completionTokens, costUsd }: Spending): string {
  return (
    `${calls} answers, ${cached} of them known before; ` +
    `${inputTokens} tokens read, ${completionTokens} written, ${costUsd.toFixed(4)} US dollars`
  );
}

/**
 * Text whose hash is the cache key of a verdict: rubric, judge, temperature, axis and all texts. The order of a pair follows from
 * the order of its replies, so that a comparison with swapped sides finds the same verdicts.
 */
export function cacheKeyText(task: JudgeTask, evaluatorModel: string): string {
  const { temperature } = sampling[task.mode];
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

/** A blank reference equals none. */
function referenceOf(expected: string | null): string | null {
  return isReference(expected) ? expected : null;
}
