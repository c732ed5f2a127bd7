import { once } from 'node:events';
import { expect } from 'chai';
import { appError } from '#src/errors.ts';
import { proposeAnchorWords } from '#src/modules/anchor-words/anchor-candidates.ts';
import type { ChatModel } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

const subject = { agentName: 'Boats', agentPrompt: 'You sell boats.', tags: [], words: [], excludeWords: [] };
const usage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };

/** Streams one of these texts for each call; never ends if it `hangs`. */
function saying(texts: string[], hangs = false): Pick<ChatModel, 'stream'> {
  return {
    stream: async ({ model, signal }, onToken) => {
      const text = texts.shift() ?? '';
      onToken(text);
      if (hangs) {
        await once(signal, 'abort');
        throw appError('model_unavailable');
      }
      return { text, model, usage, toolCalls: [] };
    },
  };
}

describe('proposing anchor words by a chat model', () => {
  const never = new AbortController().signal;
  const propose = (chatModel: Pick<ChatModel, 'stream'>, { timeoutMs = 60_000, signal = never } = {}) =>
    proposeAnchorWords(chatModel, subject, { model: 'model', timeoutMs, signal });

  it('asks again if the first answer lists no words', async () => {
    expect(await propose(saying(['Of course!', '["hull"]', '["never asked for"]']))).deep.equal(['hull']);
    expect(await appErrorCode(propose(saying(['Of course!', 'Gladly!', '["hull"]'])))).equal('model_response_invalid');
  });

  it('returns the words received before the timeout', async () => {
    expect(await propose(saying(['{"words": ["hull", "ke'], true), { timeoutMs: 10 })).deep.equal(['hull']);
    expect(await appErrorCode(propose(saying(['Let me think'], true), { timeoutMs: 10 }))).equal('model_unavailable');
  });

  it('stops when the caller aborts', async () => {
    const leaving = new AbortController();
    const words = propose(saying(['["hull"'], true), { signal: leaving.signal });
    leaving.abort(new Error('gone'));
    expect(await words.catch((error: unknown) => error)).property('message', 'gone');
  });
});
