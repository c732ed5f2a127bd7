import { randomBytes } from 'node:crypto';
import {
  type AnchorSubject,
  anchorAnswerSchema,
  anchorMessages,
  anchorRepair,
  maxAnchorAnswerTokens,
  readAnchorAnswer,
} from '#src/domain/anchor-prompt.ts';
import { appError } from '#src/errors.ts';
import type { ChatModel } from '#src/ports/chat-model.ts';

/** What a model may be told again of its own answer. */
const maxRepairedCharacters = 4_000;

export type WordProposer = (
  subject: AnchorSubject,
  options: { model: string; signal: AbortSignal },
) => Promise<string[]>;

/**
 * Asks a chat model for words, and once more where its answer is not the JSON that was asked for. Errors as in
 * `ChatModel`, and `model_response_invalid` for a second such answer. What it says is to be checked.
 */
export function createWordProposer({ chatModel }: { chatModel: Pick<ChatModel, 'complete'> }): WordProposer {
  return async (subject, { model, signal }) => {
    const messages = anchorMessages(subject, randomBytes(8).toString('hex'));
    const ask = async (said: { role: 'assistant' | 'user'; content: string }[]) => {
      const { text } = await chatModel.complete({
        model,
        messages: [...messages, ...said],
        temperature: 0.2,
        maxTokens: maxAnchorAnswerTokens,
        responseSchema: anchorAnswerSchema,
        signal,
      });
      return text;
    };

    const answer = await ask([]);
    const words = readAnchorAnswer(answer);
    if (words !== null) return words;
    const repaired = await ask([
      { role: 'assistant', content: answer.slice(0, maxRepairedCharacters).toWellFormed() },
      { role: 'user', content: anchorRepair },
    ]);
    const better = readAnchorAnswer(repaired);
    if (better === null) throw appError('model_response_invalid', { detail: 'The chat model proposed no words.' });
    return better;
  };
}
