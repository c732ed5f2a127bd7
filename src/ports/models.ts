import type { ModelKind } from '#src/domain/agents/prices.ts';
import type { RerankerType } from '#src/domain/documents/rag-config.ts';

/** A tool as it is described to a model; `parameters` is the JSON schema of its arguments. */
export type ModelTool = { name: string; description: string; parameters: Readonly<Record<string, unknown>> };

/** A call that the model asks for. `arguments` is the model's text, which should be JSON but may not be. */
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
  /** Makes the answer reproducible where the provider supports seeds. */
  seed?: number;
  maxTokens: number;
  /** Tools that the model may call; ignored for models without tool support. */
  tools?: readonly ModelTool[];
  /** False asks for an answer without further calls. A model may ignore that: then the reply has `toolCalls` and no text. */
  mayCall?: boolean;
  /** JSON schema of the answer. Callers must still validate it. */
  responseSchema?: { name: string; schema: Record<string, unknown> };
  /** Timeout of the whole answer, a minute by default; null only limits the time without data, as for every stream. */
  timeoutMs?: number | null;
  signal: AbortSignal;
};

/** Token counts as the provider reports them; `cachedInputTokens` is part of `inputTokens`. */
export type ModelUsage = { inputTokens: number; cachedInputTokens: number; completionTokens: number };

/** Why a reply ends early: the token limit, or the provider's content filter. */
export type Truncation = 'length' | 'content_filter';

/** `text` may only be empty when there are `toolCalls`. */
export type ModelReply = {
  text: string;
  model: string;
  usage: ModelUsage;
  toolCalls?: readonly ModelToolCall[];
  truncatedBy?: Truncation;
};

/**
 * A chat model behind the Chat Completions protocol. Throws the errors of `Embedder`. Removes characters that Postgres
 * cannot store (NUL, unpaired surrogates).
 */
export type ChatModel = {
  /** Calls `onToken` with each piece of text; resolves with the whole reply when the stream ended properly. */
  stream(request: ModelRequest, onToken: (text: string) => void): Promise<ModelReply>;
  complete(request: ModelRequest): Promise<ModelReply>;
};

/** Turns texts into unit vectors of one model. */
export type Embedder = {
  /** The model id that vectors are stored under. */
  readonly model: string;
  /**
   * Splits the texts into as many requests as needed. A text longer than the model's window is embedded in parts and
   * pooled. Throws `model_unavailable` (retry), `model_response_invalid`, `model_rejected` or `model_not_configured`,
   * after all its requests have ended.
   * @returns one vector per text, in order
   */
  embed(texts: readonly string[], options?: EmbedOptions): Promise<Float32Array[]>;
};

/** The embedders of a provider by model id. An unknown model throws when it is used. */
export type Embedders = { of(model: string): Embedder };

export type EmbedOptions = {
  signal?: AbortSignal;
  /** Background work, which queues and waits for a busy service for a limited time. Otherwise a busy service throws at once. */
  isBulk?: boolean;
  /** Receives the vectors of each request as soon as they arrive, by index of `texts`. An error it throws stops the work. */
  onVectors?: (vectors: readonly { index: number; vector: Float32Array }[]) => Promise<void>;
};

/** A cross-encoder: scores each document together with the query. */
export type Reranker = {
  /**
   * Throws the errors of `Embedder`, and `model_not_configured` if the service has no rerank endpoint.
   * @param request.model null for a service with one unnamed model
   * @returns a score per document, in order; higher is better, and only the ranking is meaningful
   */
  rerank(request: {
    model: string | null;
    query: string;
    documents: readonly string[];
    signal: AbortSignal;
  }): Promise<number[]>;
};

/** A model as its provider describes it; null means that the provider does not say. */
export type ProvidedModel = {
  id: string;
  kind: ModelKind;
  /** Maximum tokens per request. */
  contextWindow: number | null;
  /** Tokens of retrieved passages above which a chat model becomes slower without answering better. */
  contextBudget: number | null;
  /** Dimensions of an embedding model's vectors. */
  dimensions: number | null;
  /** Prefix that an embedding model expects before queries but not before passages. */
  queryPrefix: string | null;
  /** Type of a reranker; null for other models. */
  rerankingType: RerankerType | null;
  /** False for an extractive chat model: it cannot produce JSON or judge. */
  writesJson: boolean;
  /** Runs on the deployment's own machine. */
  isLocal: boolean;
};

/** Lists the models of a provider, or fails within seconds. A provider without a list has none. Errors as in `Embedder`. */
export type ModelCatalog = { list(): Promise<ProvidedModel[]> };

/** Limits concurrent model calls across all processes. */
export type CallLimiter = {
  /**
   * Waits for a free slot, then calls. When `call` throws with `retryAfterSeconds`, all calls of the model pause for that
   * time, and one of them probes the service before the others go on. Throws `model_unavailable` when the pause is longer
   * than the minutes that a call may wait, and the signal's reason.
   * @param of.atOnce limit for all organizations together; by default each organization may have eight calls
   */
  run<T>(
    of: { orgId: string; model: string; atOnce?: number },
    call: () => Promise<T>,
    signal: AbortSignal,
  ): Promise<T>;
};

export type TopicWord = { word: string; vector: Float32Array };

/** General English vocabulary, embedded with one model: candidates for anchor words. */
export type TopicWords = {
  /**
   * Throws if there are no words for the model.
   * @param relevance gets the unit vector of a word
   * @returns the words with the highest relevance, best first
   */
  nearest(relevance: (vector: Float32Array) => number, limit: number): Promise<TopicWord[]>;
};
