import { randomBytes } from 'node:crypto';
import {
  type AnchorSubject,
  anchorAnswerSchema,
  anchorMessages,
  anchorRepair,
  maxAnchorAnswerTokens,
  readAnchorAnswer,
} from '#src/domain/alignment/anchor-words.ts';
import { appError } from '#src/errors.ts';
import type { ChatModel, ModelMessage } from '#src/ports/models.ts';

/** What a model may be told again of its own answer. */
const maxRepairedCharacters = 4_000;

export type WordProposer = (
  subject: AnchorSubject,
  options: { model: string; timeoutMs: number; signal: AbortSignal },
) => Promise<string[]>;

/**
 * Asks a chat model for words, and once more where its answer is none that was asked for; when the time is over the
 * words so far are taken. What it says is to be checked. Errors as in `ChatModel`, `model_response_invalid` for a second
 * such answer, and the signal's where there are no words in time.
 */
export function createWordProposer({ chatModel }: { chatModel: Pick<ChatModel, 'stream'> }): WordProposer {
  return async (subject, { model, timeoutMs, signal }) => {
    const messages = anchorMessages(subject, randomBytes(8).toString('hex'));
    const inTime = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);

    async function ask(said: ModelMessage[]): Promise<{ text: string; words: string[] | null }> {
      const request = { model, temperature: 0.2, maxTokens: maxAnchorAnswerTokens, signal: inTime };
      let text = '';
      try {
        await chatModel.stream(
          { ...request, messages: [...messages, ...said], responseSchema: anchorAnswerSchema },
          (piece) => {
            text += piece;
          },
        );
      } catch (error) {
        signal.throwIfAborted();
        if (!inTime.aborted || readAnchorAnswer(text) === null) throw error;
      }
      return { text, words: readAnchorAnswer(text) };
    }

    const { text, words } = await ask([]);
    if (words !== null) return words;
    const repaired = await ask([
      { role: 'assistant', content: text.slice(0, maxRepairedCharacters).toWellFormed() },
      { role: 'user', content: anchorRepair },
    ]);
    if (repaired.words !== null) return repaired.words;
    throw appError('model_response_invalid', { detail: 'The chat model proposed no words.' });
  };
}
