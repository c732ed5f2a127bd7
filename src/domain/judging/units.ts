import { type Axis, axesOfReply, promptAxes, type ResponseAxis } from './axes.ts';
import { type Rubric, sampling } from './rubric.ts';

/** Side of a comparison; an evaluation only has `version`. */
export type Side = 'version' | 'baseline';

/** `AB`: the judge reads the reply of the version first; `BA`: that of the baseline. */
export const pairOrders = ['AB', 'BA'] as const;
export type PairOrder = (typeof pairOrders)[number];

/** Reference to a graded text. `caseIndex` counts from 0. */
export type TextRef = { kind: 'prompt'; side: Side } | { kind: 'reply'; caseIndex: number };

/** One call of the judge. `sample` counts from 1. Refers to texts instead of containing them, to keep payloads small. */
export type Unit =
  | { mode: 'plain'; text: TextRef }
  | { mode: 'anchored'; text: TextRef; axis: Axis; sample: number }
  | { mode: 'pairwise'; caseIndex: number; axis: ResponseAxis; order: PairOrder };

export type JudgedCase = { caseIndex: number; hasReference: boolean };

/** @returns the units that grade a prompt: one, or one per axis and sample */
export function unitsOfPrompt(rubric: Rubric, side: Side = 'version'): Unit[] {
  return unitsOfText({ kind: 'prompt', side }, rubric, promptAxes);
}

/** @returns the units that grade the reply to a case */
export function unitsOfReply(rubric: Rubric, { caseIndex, hasReference }: JudgedCase): Unit[] {
  return unitsOfText({ kind: 'reply', caseIndex }, rubric, axesOfReply(hasReference));
}

/** @returns the units that compare the replies of two versions to a case: each axis in both orders */
export function unitsOfPair({ caseIndex, hasReference }: JudgedCase): Unit[] {
  return axesOfReply(hasReference).flatMap((axis) =>
    pairOrders.map((order) => ({ mode: 'pairwise' as const, caseIndex, axis, order })),
  );
}

/** @returns the units that grade both prompts of a comparison with the plain rubric */
export function unitsOfBothPrompts(): Unit[] {
  return [...unitsOfPrompt('plain', 'version'), ...unitsOfPrompt('plain', 'baseline')];
}

function unitsOfText(text: TextRef, rubric: Rubric, axes: readonly Axis[]): Unit[] {
  if (rubric === 'plain') return [{ mode: 'plain', text }];
  return axes.flatMap((axis) => samplesOf(rubric).map((sample) => ({ mode: 'anchored' as const, text, axis, sample })));
}

function samplesOf(rubric: Rubric): number[] {
  return Array.from({ length: sampling[rubric].samples }, (_, index) => index + 1);
}

/** Name of a unit in `failed_units` and for operators: `prompt/role_clarity#2`, `baseline prompt`, `case 3/relevance BA`. */
export function unitName(unit: Unit): string {
  if (unit.mode === 'pairwise') return `case ${unit.caseIndex + 1}/${unit.axis} ${unit.order}`;
  const text = textName(unit.text);
  return unit.mode === 'plain' ? text : `${text}/${unit.axis}#${unit.sample}`;
}

/** Name of the answer to a case: `case 3 answer`, `case 3 baseline answer`. */
export function answerName(caseIndex: number, side: Side): string {
  return `case ${caseIndex + 1} ${side === 'version' ? '' : 'baseline '}answer`;
}

function textName(text: TextRef): string {
  if (text.kind === 'reply') return `case ${text.caseIndex + 1}`;
  return text.side === 'version' ? 'prompt' : 'baseline prompt';
}

/**
 * @returns the maximum of model calls of a run, including replies; cached verdicts need none. An invalid answer may be repeated
 * twice, which is not counted.
 * @param cases for each case, whether it has a reference
 */
export function callsOfEvaluation(rubric: Rubric, cases: readonly boolean[], { withPrompt = true } = {}): number {
  const ofPrompt = withPrompt ? unitsOfPrompt(rubric).length : 0;
  return cases.reduce(
    (calls, hasReference) => calls + 1 + unitsOfReply(rubric, { caseIndex: 0, hasReference }).length,
    ofPrompt,
  );
}

/** Like `callsOfEvaluation`, for a comparison of two versions. */
export function callsOfComparison(cases: readonly boolean[]): number {
  return cases.reduce(
    (calls, hasReference) => calls + 2 + unitsOfPair({ caseIndex: 0, hasReference }).length,
    unitsOfBothPrompts().length,
  );
}
