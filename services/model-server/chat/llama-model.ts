import type { LlamaGrammar, LlamaModel as Model, Token } from 'node-llama-cpp';

export type LlamaSettings = { path: string; windowTokens: number; threads: number; signal: AbortSignal };

export type Sampling = {
  temperature: number;
  topP: number;
  seed: number;
  grammar: LlamaGrammar | null;
  maxTokens: number;
};

/** A llama.cpp model with one sequence. Callers must not begin a call before the previous one has ended. */
export type LlamaModel = Awaited<ReturnType<typeof loadLlamaModel>>;

/** Prompt tokens evaluated between two checks of the abort signal: about half a second on two cores. */
const PROMPT_SLICE_TOKENS = 64;
/** The value of `top_k` that Qwen recommends for its models. */
const TOP_K = 20;
/** A character has at most four bytes in UTF-8, and a token has at least one. */
const MAX_TOKENS_OF_A_CHARACTER = 4;
const BROKEN_CHARACTER = '\ufffd';

/** Loads GGUF weights into this process. The library computes on its own threads, so the event loop stays free. */
export async function loadLlamaModel({ path, windowTokens, threads, signal }: LlamaSettings) {
  // Imported lazily, so that the other models work on a machine for which node-llama-cpp has no build.
  const { getLlama, LlamaGrammarEvaluationState, LlamaLogLevel } = await import('node-llama-cpp');
  const llama = await getLlama({
    gpu: false,
    build: 'never',
    skipDownload: true,
    progressLogs: false,
    logLevel: LlamaLogLevel.error,
    maxThreads: threads,
  });
  const model = await llama.loadModel({ modelPath: path, gpuLayers: 0, loadSignal: signal });
  const context = await model.createContext({
    contextSize: windowTokens,
    sequences: 1,
    threads,
    batchSize: 512,
    createSignal: signal,
  });
  const sequence = context.getSequence();

  /** Evaluates a prompt except its last token, and reuses the prefix that it shares with the previous prompt. */
  async function read(prompt: readonly Token[], signal: AbortSignal): Promise<{ cachedTokens: number }> {
    const ahead = prompt.slice(0, -1);
    await sequence.adaptStateToTokens(ahead, false);
    const cachedTokens = sequence.nextTokenIndex;
    for (let start = cachedTokens; start < ahead.length; start += PROMPT_SLICE_TOKENS) {
      signal.throwIfAborted();
      await sequence.evaluateWithoutGeneratingNewTokens(ahead.slice(start, start + PROMPT_SLICE_TOKENS));
    }
    signal.throwIfAborted();
    return { cachedTokens };
  }

  /** Generates tokens after the last token of an evaluated prompt, until the end token or `maxTokens`. */
  async function* write(prompt: readonly Token[], sampling: Sampling, signal: AbortSignal) {
    const { temperature, topP, seed, grammar, maxTokens } = sampling;
    const tokens = sequence.evaluate(prompt.slice(-1), {
      temperature,
      topP,
      seed,
      topK: TOP_K,
      ...(grammar && { grammarEvaluationState: new LlamaGrammarEvaluationState({ model, grammar }) }),
    });
    let pending: Token[] = [];
    let written = 0;
    for await (const token of tokens) {
      signal.throwIfAborted();
      written += 1;
      pending.push(token);
      const text = model.detokenize(pending, true);
      const isWhole = !text.endsWith(BROKEN_CHARACTER) || pending.length >= MAX_TOKENS_OF_A_CHARACTER;
      yield { token, text: isWhole ? text : '' };
      if (isWhole) pending = [];
      if (written === maxTokens) return;
    }
  }

  async function probabilities(prompt: readonly Token[], candidates: readonly Token[]): Promise<number[]> {
    const options = { temperature: 1, topK: 0, topP: 1 };
    for await (const next of sequence.evaluateWithMetadata(prompt.slice(-1), { probabilities: true }, options)) {
      return candidates.map((token) => next.probabilities.get(token) ?? 0);
    }
    return candidates.map(() => 0);
  }

  return {
    windowTokens: context.contextSize,
    template: readTemplate(model),
    /**
     * With `withMarks`, special tokens such as `<|im_end|>` are parsed; a user's text must be tokenized without it.
     */
    tokenize: (text: string, { withMarks }: { withMarks: boolean }): Token[] => model.tokenize(text, withMarks),
    grammarOf: (schema: unknown): Promise<LlamaGrammar> =>
      // The library validates the schema itself; its errors name the keywords that it does not support.
      llama.createGrammarForJsonSchema(schema as Parameters<typeof llama.createGrammarForJsonSchema>[0]),
    anyObject: (): Promise<LlamaGrammar> => llama.getGrammarFor('json'),
    read,
    write,
    probabilities,
    async close(): Promise<void> {
      await llama.dispose();
    },
  };
}

function readTemplate(model: Model): string {
  const template: unknown = model.fileInfo.metadata.tokenizer?.chat_template;
  if (typeof template !== 'string') throw new Error('The chat model has no chat template.');
  return template;
}
