import { type Axis, axesOfReply, isReference, promptAxes } from './axes.ts';
import type { JudgeTask, PromptMaterial, ReplyMaterial } from './judgement.ts';
import { maxScore, severities } from './rubric.ts';

export const maxRationaleCharacters = 600;
export const maxWeaknessCharacters = 300;
/** Of each of several axes: a slow model writes them all in one go. */
const maxPlainRationaleCharacters = 300;

/** The property of a plain verdict that holds one object for each axis. */
export const plainList = 'scores';

/** The axes that a text is graded on by a plain call. */
export function axesOf(material: PromptMaterial | ReplyMaterial): readonly Axis[] {
  return material.kind === 'prompt' ? promptAxes : axesOfReply(isReference(material.expected));
}

const text = (maxLength: number) => ({ type: 'string', maxLength });
const oneOf = (values: readonly string[]) => ({ type: 'string', enum: values });
const rationale = text(maxRationaleCharacters);
/** As a list: grammars of small servers know no bounds of numbers. */
const score = { type: 'integer', enum: Array.from({ length: maxScore + 1 }, (_, value) => value) };

/**
 * The JSON schema of an answer. The reasons come before the verdict, because a model that has said its verdict first
 * only defends it.
 */
export function verdictSchema(task: JudgeTask): { name: string; schema: Record<string, unknown> } {
  switch (task.mode) {
    case 'pairwise':
      return { name: 'comparison', schema: object({ rationale, winner: oneOf(['A', 'B', 'tie']) }) };
    case 'anchored': {
      const weakness = text(maxWeaknessCharacters);
      return { name: 'verdict', schema: object({ rationale, weakness, severity: oneOf(severities), score }) };
    }
    case 'plain': {
      const axes = axesOf(task.material);
      const items = object({ axis: oneOf(axes), rationale: text(maxPlainRationaleCharacters), score });
      const list = { type: 'array', items, minItems: axes.length, maxItems: axes.length };
      return { name: 'verdicts', schema: object({ [plainList]: list }) };
    }
  }
}

function object(properties: Record<string, unknown>): Record<string, unknown> {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false };
}

/** Tokens that an answer may need, generously: a rationale of 80 words is about 110. */
export function answerTokens(task: JudgeTask): number {
  return task.mode === 'plain' ? 250 * axesOf(task.material).length : 500;
}
