import { createHash } from 'node:crypto';
import { withoutRoleTokens } from '#src/domain/chat/context-blocks.ts';
import { planWindow } from '#src/domain/chat/context-window.ts';
import type { TokenCounter } from '#src/domain/text/tokens.ts';
import { appError } from '#src/errors.ts';
import type { ModelsService } from '#src/modules/models/models.service.ts';
import type { ChatModel, ModelMessage, ModelReply } from '#src/ports/models.ts';

/** What a provider's template puts around a message, generously. */
const messageTokens = 8;

/** A case as a version gets it. `draw` tells answers apart that are to be drawn anew. */
export type CaseQuestion = {
  persona: string;
  input: string;
  model: string;
  temperature: number;
  maxTokens: number;
  draw: string | null;
};

export type Answerer = (question: CaseQuestion, signal: AbortSignal) => Promise<ModelReply>;

/**
 * Answers a case as a published agent would answer the first message of a chat, without documents and without tools.
 * Throws `context_too_long` for what the model cannot read, and errors as in `ChatModel`.
 */
export function createAnswerer(deps: {
  chatModel: Pick<ChatModel, 'complete'>;
  models: Pick<ModelsService, 'contextWindow' | 'answerTimeoutMs'>;
  tokens: TokenCounter;
}): Answerer {
  return async ({ persona, input, model, temperature, maxTokens }, signal) => {
    const messages: ModelMessage[] = [
      ...(persona.trim() === '' ? [] : [{ role: 'system' as const, content: persona }]),
      { role: 'user', content: withoutRoleTokens(input) },
    ];
    const fixed = messages.reduce((sum, { content }) => sum + deps.tokens.count(content) + messageTokens, 0);
    const plan = planWindow({ window: await deps.models.contextWindow(model), maxTokens, fixed });
    if (plan === null) {
      throw appError('context_too_long', { detail: 'The prompt and the case are longer than the model can read.' });
    }
    const timeoutMs = await deps.models.answerTimeoutMs(model);
    return deps.chatModel.complete({ model, messages, temperature, maxTokens: plan.maxTokens, timeoutMs, signal });
  };
}

/** Of all that an answer depends on. */
export function answerKey({ persona, input, model, temperature, maxTokens, draw }: CaseQuestion): Buffer {
  const question = JSON.stringify([persona, input, model, temperature, maxTokens, draw]);
  return createHash('sha256').update(`answer ${question}`).digest();
}
