import type { Logger } from 'pino';
import { type ModelFolders, verifiedModelFile } from '../model-files.ts';
import type { ChatModel } from '../model-manifest.ts';
import { OpenAiError } from '../openai-error.ts';
import { createPromptTemplate, type PromptTemplate } from './chat-prompt.ts';
import type { Answerer } from './chat-request.ts';
import { type LlamaModel, loadLlamaModel } from './llama-model.ts';
import { createTurnQueue } from './turn-queue.ts';
import { tokenizePrompt, writeAnswer } from './write-answer.ts';

const JUDGE_INSTRUCTION = 'Judge whether the passage answers the question. Say only Yes or No.';

export type LocalChat = {
  answer: Answerer;
  judgePassages(
    question: string,
    passages: string[],
    signal: AbortSignal,
  ): Promise<{ scores: number[]; tokens: number }>;
  /** Starts to load the model. A failure is logged, and the first request tries again. */
  preload(): void;
  close(): Promise<void>;
};

type Loaded = { llama: LlamaModel; toPrompt: PromptTemplate };

export function createLocalChat(settings: {
  model: ChatModel;
  folders: ModelFolders;
  threads: number;
  log: Logger;
}): LocalChat {
  const { model, folders, threads, log } = settings;
  const queue = createTurnQueue();
  const closing = new AbortController();
  let loading: Promise<Loaded> | undefined;

  async function load(): Promise<Loaded> {
    const [file] = model.files;
    if (!file) throw new Error(`The manifest lists no file for the model ${model.id}.`);
    const { signal } = closing;
    const startedAt = performance.now();
    const path = await verifiedModelFile(file, folders, signal);
    const llama = await loadLlamaModel({ path, windowTokens: model.windowTokens, threads, signal });
    log.info({ model: model.id, durationMs: Math.round(performance.now() - startedAt) }, 'model loaded');
    return { llama, toPrompt: createPromptTemplate(llama.template) };
  }

  async function loaded(): Promise<Loaded> {
    loading ??= load();
    try {
      return await loading;
    } catch (error) {
      closing.signal.throwIfAborted();
      log.error({ err: error, model: model.id }, 'chat model failed to load');
      // The next request loads again: the model file may have been repaired by then.
      loading = undefined;
      throw new OpenAiError(503, 'The chat model failed to load; see the log of the model server.');
    }
  }

  const answer: Answerer = (request, onText, signal) => {
    const either = AbortSignal.any([signal, closing.signal]);
    return queue.run(request.urgency, either, async () => {
      const { llama, toPrompt } = await loaded();
      return writeAnswer({ llama, toPrompt, request, onText, signal: either });
    });
  };

  async function judgePassages(question: string, passages: string[], signal: AbortSignal) {
    const either = AbortSignal.any([signal, closing.signal]);
    return queue.run('chat', either, async () => {
      const { llama, toPrompt } = await loaded();
      const [yes, no] = ['Yes', 'No'].map((word) => llama.tokenize(word, { withMarks: false })[0]);
      if (yes === undefined || no === undefined)
        throw new Error('The tokenizer of the chat model has no tokens for yes and no.');
      const scores: number[] = [];
      let tokens = 0;
      for (const passage of passages) {
        // The question comes first, so that all passages share its evaluated prefix.
        const content = `Question: ${question}\n\nPassage: ${passage}\n\nDoes the passage answer the question?`;
        const messages = [
          { role: 'system' as const, content: JUDGE_INSTRUCTION },
          { role: 'user' as const, content },
        ];
        const prompt = tokenizePrompt(llama, toPrompt(messages, []));
        await llama.read(prompt, either);
        const [ofYes = 0, ofNo = 0] = await llama.probabilities(prompt, [yes, no]);
        scores.push(ofYes + ofNo > 0 ? ofYes / (ofYes + ofNo) : 0);
        tokens += prompt.length;
      }
      return { scores, tokens };
    });
  }

  return {
    answer,
    judgePassages,
    preload() {
      loaded().catch(() => undefined);
    },
    async close() {
      closing.abort(new OpenAiError(503, 'The model server is shutting down.'));
      // The native library must not be disposed while a call or a load still runs in it.
      await queue.idle();
      const ready = await loading?.catch(() => undefined);
      await ready?.llama.close();
    },
  };
}
