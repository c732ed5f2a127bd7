import { type Axis, axesOfReply, promptAxes, type ResponseAxis } from './axes.ts';
import { type Rubric, sampling } from './rubric.ts';

/** Which prompt of a comparison; of an evaluation there is only that of the version. */
export type Side = 'version' | 'baseline';

/** Which reply the judge reads first: `AB` that of the version, `BA` that of the baseline. */
export const pairOrders = ['AB', 'BA'] as const;
export type PairOrder = (typeof pairOrders)[number];

/** A text that is graded. `caseIndex` counts from 0. */
export type TextRef = { kind: 'prompt'; side: Side } | { kind: 'reply'; caseIndex: number };

/** What one call of the judge answers; `sample` counts from 1. Small enough for a payload: it names texts, it holds none. */
export type Unit =
  | { mode: 'plain'; text: TextRef }
  | { mode: 'anchored'; text: TextRef; axis: Axis; sample: number }
  | { mode: 'pairwise'; caseIndex: number; axis: ResponseAxis; order: PairOrder };

export type JudgedCase = { caseIndex: number; hasReference: boolean };

/** The units that grade a prompt: one, or one for each axis and sample. */
export function unitsOfPrompt(rubric: Rubric, side: Side = 'version'): Unit[] {
  return unitsOfText({ kind: 'prompt', side }, rubric, promptAxes);
}

/** The units that grade the reply to a case. */
export function unitsOfReply(rubric: Rubric, { caseIndex, hasReference }: JudgedCase): Unit[] {
  return unitsOfText({ kind: 'reply', caseIndex }, rubric, axesOfReply(hasReference));
}

/** The units that compare the replies of two versions to a case: each axis in both orders. */
export function unitsOfPair({ caseIndex, hasReference }: JudgedCase): Unit[] {
  return axesOfReply(hasReference).flatMap((axis) =>
    pairOrders.map((order) => ({ mode: 'pairwise' as const, caseIndex, axis, order })),
  );
}

/** Both prompts of a comparison, which are graded plainly. */
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

/** A unit as operators and `failed_units` name it: `prompt/clarity#2`, `baseline prompt`, `case 3/relevance BA`. */
export function unitName(unit: Unit): string {
  if (unit.mode === 'pairwise') return `case ${unit.caseIndex + 1}/${unit.axis} ${unit.order}`;
  const text = textName(unit.text);
  return unit.mode === 'plain' ? text : `${text}/${unit.axis}#${unit.sample}`;
}

/** The answer to a case, in the same manner: `case 3 answer`, `case 3 baseline answer`. */
export function answerName(caseIndex: number, side: Side): string {
  return `case ${caseIndex + 1} ${side === 'version' ? '' : 'baseline '}answer`;
}

function textName(text: TextRef): string {
  if (text.kind === 'reply') return `case ${text.caseIndex + 1}`;
  return text.side === 'version' ? 'prompt' : 'baseline prompt';
}

/**
 * Calls of models that a run makes at most, replies included; fewer where verdicts are cached. A refused answer may be
 * asked for twice more, which is not counted.
 * @param cases whether each has a reference
 */
export function callsOfEvaluation(rubric: Rubric, cases: readonly boolean[], { withPrompt = true } = {}): number {
  const ofPrompt = withPrompt ? unitsOfPrompt(rubric).length : 0;
  return cases.reduce(
    (calls, hasReference) => calls + 1 + unitsOfReply(rubric, { caseIndex: 0, hasReference }).length,
    ofPrompt,
  );
}

/** As `callsOfEvaluation`, for two versions. */
export function callsOfComparison(cases: readonly boolean[]): number {
  return cases.reduce(
    (calls, hasReference) => calls + 2 + unitsOfPair({ caseIndex: 0, hasReference }).length,
    unitsOfBothPrompts().length,
  );
}
