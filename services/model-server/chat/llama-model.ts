import type { LlamaGrammar, LlamaModel as Model, Token } from 'node-llama-cpp';

export type LlamaSettings = { path: string; windowTokens: number; threads: number; signal: AbortSignal };

export type Sampling = {
  /** 0 takes the most likely token each time. */
  temperature: number;
  topP: number;
  seed: number;
  grammar: LlamaGrammar | null;
  maxTokens: number;
};

/** One model with one sequence: whoever calls takes care that one call has ended before the next begins. */
export type LlamaModel = Awaited<ReturnType<typeof loadLlamaModel>>;

/** Half a second of reading on two cores: between two slices it is seen that the client went away. */
const PROMPT_SLICE_TOKENS = 64;
/** What the makers of the model recommend. */
const TOP_K = 20;
/** A character has at most four bytes, and a token at least one. */
const MAX_TOKENS_OF_A_CHARACTER = 4;
const BROKEN_CHARACTER = '\ufffd';

/** Loads weights into this process. They are computed on threads of the library: the event loop stays free. */
export async function loadLlamaModel({ path, windowTokens, threads, signal }: LlamaSettings) {
  // Loaded here, so that a machine without a build of it still has the other models.
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

  /** Reads a prompt but for its last token; what it shares with the one before is known already. */
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

  /** Goes on after the last token of a prompt that was read. Ends with the model's end mark or after `maxTokens`. */
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

  /** The probabilities of some next tokens after a prompt that was read. */
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
    /** `withMarks` reads special tokens such as `<|im_end|>` as what they are; a user's text must not. */
    tokenize: (text: string, { withMarks }: { withMarks: boolean }): Token[] => model.tokenize(text, withMarks),
    grammarOf: (schema: unknown): Promise<LlamaGrammar> =>
      // The library checks the schema itself, with errors that name what it cannot do.
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

/** The conversation's format in Jinja, as the file itself says. */
function readTemplate(model: Model): string {
  const template: unknown = model.fileInfo.metadata.tokenizer?.chat_template;
  if (typeof template !== 'string') throw new Error('The chat model has no chat template.');
  return template;
}
