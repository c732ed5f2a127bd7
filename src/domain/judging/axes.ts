import { promptRubric } from './prompt-axes.ts';
import { responseRubric } from './response-axes.ts';

/** Of an agent's prompt, in the order in which they are shown. */
export const promptAxes = [
  'role_clarity',
  'instruction_specificity',
  'scope_boundaries',
  'output_contract',
  'robustness',
  'consistency',
] as const;

/** Of a reply; the last one only where there is a reference to compare it with. */
export const responseAxes = ['adherence', 'relevance', 'completeness', 'clarity', 'accuracy'] as const;

export type PromptAxis = (typeof promptAxes)[number];
export type ResponseAxis = (typeof responseAxes)[number];
export type Axis = PromptAxis | ResponseAxis;

/** What an axis means: the text that the judge gets, and the name that people read. */
export type AxisRubric = {
  label: string;
  /** One sentence: what is graded. */
  definition: string;
  /** What can be seen in the text, each true or not. */
  checks: readonly [string, string];
  /** What earns the scores 5, 4, 3, 2, 1 and 0, in this order. */
  anchors: readonly [string, string, string, string, string, string];
};

const rubric: Readonly<Record<Axis, AxisRubric>> = { ...promptRubric, ...responseRubric };

export function rubricOf(axis: Axis): AxisRubric {
  return rubric[axis];
}

/** The axes of a reply: without a reference nobody can tell whether its facts are right. */
export function axesOfReply(hasReference: boolean): readonly ResponseAxis[] {
  return hasReference ? responseAxes : responseAxes.filter((axis) => axis !== 'accuracy');
}

/** True when the expected answer of a case says something. */
export function isReference(expected: string | null | undefined): expected is string {
  return expected !== null && expected !== undefined && expected.trim() !== '';
}
