import type { ModelKind } from '#src/domain/agents/prices.ts';
import type { RerankerType } from '#src/domain/documents/rag-config.ts';

export type ModelTool = { name: string; description: string; parameters: Readonly<Record<string, unknown>> };

/** `arguments` of a tool call is the model's text, which should be JSON but may not be. */
export type ModelToolCall = { name: string; arguments: string };

/** A `tool` message answers the call with its id in the preceding `assistant` message. */
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
  /** A model may ignore `mayCall: false`; then the reply has `toolCalls` and no text. */
  mayCall?: boolean;
  /** Models may violate the response schema, so callers must validate the answer. */
  responseSchema?: { name: string; schema: Record<string, unknown> };
  /** Timeout of the whole answer, a minute by default; null only limits the time without data, as for every stream. */
  timeoutMs?: number | null;
  signal: AbortSignal;
};

/** `cachedInputTokens` are included in `inputTokens`. */
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
 * A chat model behind the Chat Completions protocol. Throws the errors of `Embedder`. Removes characters that Postgres
 * cannot store (NUL, unpaired surrogates).
 */
export type ChatModel = {
  stream(request: ModelRequest, onToken: (text: string) => void): Promise<ModelReply>;
  complete(request: ModelRequest): Promise<ModelReply>;
};

export type Embedder = {
  readonly model: string;
  /**
   * Splits the texts into as many requests as needed. A text longer than the model's window is embedded in parts and
   * pooled. Throws `model_unavailable` (retry), `model_response_invalid`, `model_rejected` or `model_not_configured`,
   * after all its requests have ended.
   */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array[]>;
};

/** An embedder of an unknown model throws only when it is used. */
export type EmbedderFactory = { of(model: string): Embedder };

export type EmbedOptions = {
  signal?: AbortSignal;
  /** Bulk requests wait for a busy service for a limited time; others throw at once. */
  isBulk?: boolean;
  /** Gets the vectors of each request as they arrive, by index of `texts`. An error that it throws stops the work. */
  onVectors?: (vectors: readonly { index: number; vector: Float32Array }[]) => Promise<void>;
};

export type Reranker = {
  /**
   * Throws the errors of `Embedder`, and `model_not_configured` if the service has no rerank endpoint. Of the scores,
   * in the order of the documents, only the ranking is meaningful. `model` is null for a service with one unnamed
   * model.
   */
  rerank(request: {
    model: string | null;
    query: string;
    documents: readonly string[];
    signal: AbortSignal;
  }): Promise<number[]>;
};

/** A property of a model is null if its provider does not report it. */
export type ListedModel = {
  id: string;
  kind: ModelKind;
  contextWindow: number | null;
  /** Tokens of retrieved passages above which a chat model becomes slower without answering better. */
  contextBudget: number | null;
  dimensions: number | null;
  /** Some embedding models expect a prefix before queries but not before passages. */
  queryPrefix: string | null;
  rerankingType: RerankerType | null;
  /** An extractive chat model cannot write JSON, so it cannot judge. */
  writesJson: boolean;
  isLocal: boolean;
};

/** Listing models fails within seconds. A provider without a list has no models. */
export type ModelCatalog = { list(): Promise<ListedModel[]> };

export type ModelCallLimiter = {
  /**
   * Waits for a free slot, then calls. When `call` throws with `retryAfterSeconds`, all calls of the model pause for
   * that time, and one of them probes the service before the others go on. Throws `model_unavailable` when the pause is
   * longer than the minutes that a call may wait, and the signal's reason.
   * @param of.atOnce limit for all organizations together; by default each organization may have eight calls
   */
  run<T>(
    of: { orgId: string; model: string; atOnce?: number },
    call: () => Promise<T>,
    signal: AbortSignal,
  ): Promise<T>;
};

export type TopicWord = { word: string; vector: Float32Array };

export type TopicWordIndex = {
  /**
   * Lists the topic words that `relevance`, which gets unit vectors, scores highest, best first. Throws if the model
   * has no words.
   */
  nearest(relevance: (vector: Float32Array) => number, limit: number): Promise<TopicWord[]>;
};
