/** A tool as a model sees it; `parameters` is the JSON schema of its arguments. */
export type ModelTool = { name: string; description: string; parameters: Readonly<Record<string, unknown>> };

/** What a model wants to be called. `arguments` is JSON as the model wrote it, or what was to become some. */
export type ModelToolCall = { name: string; arguments: string };

/** A tool's message answers the call of its id in the assistant's message before it. */
export type ModelMessage =
  | { role: 'system' | 'user'; content: string }
  | { role: 'assistant'; content: string; toolCalls?: readonly (ModelToolCall & { id: string })[] }
  | { role: 'tool'; toolCallId: string; content: string };

export type ModelRequest = {
  model: string;
  messages: ModelMessage[];
  temperature: number;
  /** The same request with the same seed gets the same answer, where the provider can do that. */
  seed?: number;
  maxTokens: number;
  /** What the model may call; a model that knows no tools is asked without them. */
  tools?: readonly ModelTool[];
  /** False: no more, now the model is to answer; one that calls all the same, and says nothing, has `toolCalls`. */
  mayCall?: boolean;
  /** The answer is to be JSON of this schema; whoever asks still checks it. */
  responseSchema?: { name: string; schema: Record<string, unknown> };
  /**
   * As long as a whole answer may take; a minute when not given, and as long as the service is heard of when null. A
   * stream is given up by its silence.
   */
  timeoutMs?: number | null;
  signal: AbortSignal;
};

/** Token counts as the provider reports them; `cachedInputTokens` is a part of `inputTokens`. */
export type ModelUsage = { inputTokens: number; cachedInputTokens: number; completionTokens: number };

/** What ended a text before its end: the limit of tokens, or somebody who left out the rest. */
export type ReplyCut = 'length' | 'content_filter';

/** `toolCalls` is there when there are some; then the text may be empty, and never else. */
export type ModelReply = {
  text: string;
  model: string;
  usage: ModelUsage;
  toolCalls?: readonly ModelToolCall[];
  cutBy?: ReplyCut;
};

/**
 * A chat model behind the Chat Completions protocol. Errors as in `Embedder`. What it says comes without that which no
 * database can store (NUL, half of a character).
 */
export type ChatModel = {
  /** Calls `onToken` with each piece of text as it comes; resolves with the whole when the stream ended well. */
  stream(request: ModelRequest, onToken: (text: string) => void): Promise<ModelReply>;
  complete(request: ModelRequest): Promise<ModelReply>;
};
