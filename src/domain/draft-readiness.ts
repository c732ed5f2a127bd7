import type { DraftFields } from './draft-fields.ts';

export type MissingForPublish = { path: 'agent_prompt' | 'anchor_words' | 'chat_model'; message: string };

/** What a version lacks to become an agent; empty when it is ready. No chosen model means the deployment's default. */
export function missingForPublish(
  fields: Pick<DraftFields, 'agentPrompt' | 'anchorWords' | 'chatModel'>,
  offeredModels: readonly string[],
): MissingForPublish[] {
  const missing: MissingForPublish[] = [];
  if (fields.agentPrompt.trim() === '') missing.push({ path: 'agent_prompt', message: 'is blank' });
  if (!Object.values(fields.anchorWords).some((weight) => weight > 0)) {
    missing.push({ path: 'anchor_words', message: 'needs at least one word with a positive weight' });
  }
  if (fields.chatModel !== null && !offeredModels.includes(fields.chatModel)) {
    missing.push({ path: 'chat_model', message: `${fields.chatModel} is not offered here` });
  }
  return missing;
}
