import { once } from 'node:events';
import { expect } from 'chai';
import { appError } from '#src/errors.ts';
import { proposeAnchorWords } from '#src/modules/anchor-words/anchor-candidates.ts';
import type { ChatModel } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

describe('proposing anchor words by a chat model', () => {
  const subject = { agentName: 'Boats', agentPrompt: 'You sell boats.', tags: [], words: [], excludeWords: [] };
  const usage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };

  /** Proposes words by a model that streams one of these texts for each call, and never ends if it `hangs`. */
  function propose(texts: string[], { hangs = false, timeoutMs = 60_000, signal = new AbortController().signal } = {}) {
    const stream: ChatModel['stream'] = async ({ model, signal: ended }, onToken) => {
      const text = texts.shift() ?? '';
      onToken(text);
      if (!hangs) return { text, model, usage, toolCalls: [] };
      await once(ended, 'abort');
      throw appError('model_unavailable');
    };
    return proposeAnchorWords({ stream }, subject, { model: 'model', timeoutMs, signal });
  }

  it('asks the model again if its first answer lists no words', async () => {
    expect(await propose(['Of course!', '["hull"]', '["never asked for"]'])).deep.equal(['hull']);
    expect(await appErrorCode(propose(['Of course!', 'Gladly!', '["hull"]']))).equal('model_response_invalid');
  });

  it('returns the words received before the timeout', async () => {
    const late = { hangs: true, timeoutMs: 10 };
    expect(await propose(['{"words": ["hull", "ke'], late)).deep.equal(['hull']);
    expect(await appErrorCode(propose(['Let me think'], late))).equal('model_unavailable');
  });

  it('stops when the caller aborts', async () => {
    const leaving = new AbortController();
    const words = propose(['["hull"'], { hangs: true, signal: leaving.signal });
    leaving.abort(new Error('gone'));
    expect(await words.catch((error: unknown) => error)).property('message', 'gone');
  });
});
