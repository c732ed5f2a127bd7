import { isReference } from './axes.ts';
import type { JudgeTask } from './judgement.ts';
import { rubricVersion, sampling } from './rubric.ts';

/**
 * All that a verdict depends on, as one text whose hash is the key of its cache: the rubric, who judges and how warm,
 * the aspect, and every text. What the order of a pair is can be seen from the order of its replies, so that a
 * comparison with swapped sides finds the same verdicts.
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

/** Without words there is no reference, however that is written. */
function referenceOf(expected: string | null): string | null {
  return isReference(expected) ? expected : null;
}
