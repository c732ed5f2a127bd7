import type { Judgement, JudgeTask, PromptMaterial, ReplyMaterial } from './judgement.ts';
import { axesOf } from './verdict-schema.ts';

/** What nobody has to be asked for: nothing earns nothing, and of two equal replies none wins. Null for all else. */
export function settledByRule(task: JudgeTask): Judgement | null {
  if (task.mode === 'pairwise') {
    const { a, b } = task.material;
    const isSame = a.persona === b.persona && a.reply === b.reply;
    return isSame ? { mode: 'pairwise', rationale: 'Both replies are the same text.', winner: 'tie' } : null;
  }
  if (gradedText(task.material).trim() !== '') return null;
  const rationale = 'There is no text to grade.';
  if (task.mode === 'plain') {
    return { mode: 'plain', scores: axesOf(task.material).map((axis) => ({ axis, rationale, score: 0 })) };
  }
  return { mode: 'anchored', axis: task.axis, rationale, weakness: rationale, severity: 'fundamental', score: 0 };
}

function gradedText(material: PromptMaterial | ReplyMaterial): string {
  return material.kind === 'prompt' ? material.agentPrompt : material.reply;
}
