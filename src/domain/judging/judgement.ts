import type { Axis, ResponseAxis } from './axes.ts';
import type { Severity } from './rubric.ts';
import type { PairOrder, Side } from './units.ts';

export type PromptText = { agentName: string; agentPrompt: string; tags: readonly string[] };

/** `expected`: null without a reference. */
export type CaseText = { input: string; expected: string | null };

/** What a version answers to a case; `persona` is its prompt, by which the answer is judged. */
export type ReplyText = { persona: string; reply: string };

export type PromptMaterial = PromptText & { kind: 'prompt' };
export type ReplyMaterial = CaseText & ReplyText & { kind: 'reply' };
/** `a` is what the judge reads first. */
export type PairMaterial = CaseText & { kind: 'pair'; a: ReplyText; b: ReplyText };

/** One unit with its texts: all that the judge is told, and all that its verdict depends on. */
export type JudgeTask =
  | { mode: 'plain'; material: PromptMaterial | ReplyMaterial }
  | { mode: 'anchored'; axis: Axis; sample: number; material: PromptMaterial | ReplyMaterial }
  | { mode: 'pairwise'; axis: ResponseAxis; material: PairMaterial };

/** The two replies as a judge reads them in this order. */
export function pairMaterial(
  order: PairOrder,
  { input, expected, version, baseline }: CaseText & Record<Side, ReplyText>,
): PairMaterial {
  const [a, b] = order === 'AB' ? [version, baseline] : [baseline, version];
  return { kind: 'pair', input, expected, a, b };
}

export type PlainScore = { axis: Axis; rationale: string; score: number };
export type AnchoredScore = PlainScore & { weakness: string; severity: Severity };
/** Of the two in the order in which they were read. */
export type PairWinner = 'A' | 'B' | 'tie';

/** What the judge found, checked and within the rules: what is stored for a unit. Scores are whole, 0 to 5. */
export type Judgement =
  | { mode: 'plain'; scores: PlainScore[] }
  | ({ mode: 'anchored' } & AnchoredScore)
  | { mode: 'pairwise'; rationale: string; winner: PairWinner };
