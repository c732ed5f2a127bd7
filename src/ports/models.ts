import type { ModelKind } from '#src/domain/agents/prices.ts';
import type { RerankerType } from '#src/domain/documents/rag-config.ts';

export type ModelTool = { name: string; description: string; parameters: Readonly<Record<string, unknown>> };

/** `arguments` is text written by the model, which should be JSON but may be invalid. */
export type ModelToolCall = { name: string; arguments: string };

/** A message with role `tool` is the result of the tool call with this id in the preceding `assistant` message. */
export type ModelMessage =
  | { role: 'system' | 'user'; content: string }
  | { role: 'assistant'; content: string; toolCalls?: readonly (ModelToolCall & { id: string })[] }
  | { role: 'tool'; toolCallId: string; content: string };

export type ModelRequest = {
  model: string;
  messages: ModelMessage[];
  temperature: number;
  seed?: number;
  maxTokens: number;
  tools?: readonly ModelTool[];
  /** Whether the model may call tools. Some models ignore `false`; their reply then has `toolCalls` and no text. */
  mayCall?: boolean;
  /** JSON Schema of the reply. Models may violate it, so callers must validate the reply. */
  responseSchema?: { name: string; schema: Record<string, unknown> };
  /**
   * Timeout of the whole reply, one minute by default. If null, only the time without data is limited, as in streams.
   */
  timeoutMs?: number | null;
  signal: AbortSignal;
};

/** `inputTokens` includes `cachedInputTokens`. */
export type ModelUsage = { inputTokens: number; cachedInputTokens: number; completionTokens: number };

export type TruncationReason = 'length' | 'content_filter';

export type ModelReply = {
  text: string;
  model: string;
  usage: ModelUsage;
  toolCalls?: readonly ModelToolCall[];
  truncatedBy?: TruncationReason;
};

/**
 * Chat models behind the Chat Completions API. Throws the errors of `Embedder`. Removes characters that Postgres cannot
 * store (NUL, unpaired surrogates) from replies.
 */
export type ChatModel = {
  stream(request: ModelRequest, onToken: (text: string) => void): Promise<ModelReply>;
  complete(request: ModelRequest): Promise<ModelReply>;
};

export type Embedder = {
  readonly model: string;
  /**
   * Embeds the texts in as many requests as needed. A text longer than the model's context window is embedded in parts,
   * whose vectors are pooled. Throws `model_unavailable` (retry), `model_response_invalid`, `model_rejected` or
   * `model_not_configured`, after all its requests have ended.
   */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array[]>;
};

/** Returns the embedder of a model. For an unknown model, only the use of the embedder throws. */
export type EmbedderFactory = { of(model: string): Embedder };

export type EmbedOptions = {
  signal?: AbortSignal;
  /** When the model service is busy, bulk requests wait for a limited time; others throw at once. */
  isBulk?: boolean;
  /**
   * Called with the vectors of each request as they arrive; `index` refers to `texts`. If the callback throws,
   * embedding stops.
   */
  onVectors?: (vectors: readonly { index: number; vector: Float32Array }[]) => Promise<void>;
};

export type Reranker = {
  /**
   * Scores the documents, in their order; only the ranking of the scores is meaningful. `model` is null for a service
   * with a single, unnamed model. Throws the errors of `Embedder`, and `model_not_configured` if the service has no
   * rerank endpoint.
   */
  rerank(request: {
    model: string | null;
    query: string;
    documents: readonly string[];
    signal: AbortSignal;
  }): Promise<number[]>;
};

/** A model in the provider's list; a property is null if the provider does not report it. */
export type ListedModel = {
  id: string;
  kind: ModelKind;
  contextWindow: number | null;
  /** Limit of passage tokens in a prompt, above which the model gets slower without better answers. */
  contextBudget: number | null;
  dimensions: number | null;
  /** Prefix that the embedding model expects before queries but not before passages. */
  queryPrefix: string | null;
  /** Cosine that the vectors of two unrelated texts have, on average. */
  unrelatedSimilarity: number | null;
  /** ISO 639-1 codes of the languages that the embedding model knows; null for all. */
  languages: readonly string[] | null;
  rerankingType: RerankerType | null;
  /** False for an extractive chat model, which only quotes its input: it cannot judge evaluations. */
  writesJson: boolean;
  isLocal: boolean;
};

/** Lists the models of the provider; empty if the provider has no such list. Fails within seconds. */
export type ModelCatalog = { list(): Promise<ListedModel[]> };

export type ModelCallLimiter = {
  /**
   * Waits for a free slot, then runs `call`. When `call` throws an error with `retryAfterSeconds`, all calls of the
   * model pause for that time, and one of them probes the service before the others go on. Throws `model_unavailable`
   * when the pause is longer than the few minutes that a call may wait, and the signal's reason when `signal` is
   * aborted.
   * @param of.atOnce limit for all organizations together; by default each organization may have eight concurrent calls
   */
  run<T>(
    of: { orgId: string; model: string; atOnce?: number },
    call: () => Promise<T>,
    signal: AbortSignal,
  ): Promise<T>;
};

export type TopicWord = { word: string; vector: Float32Array };

export type TopicWordIndex = {
  /** Lists topic words by `relevance` of their unit vectors, best first. Throws if the model has none. */
  nearest(relevance: (vector: Float32Array) => number, limit: number): Promise<TopicWord[]>;
};
