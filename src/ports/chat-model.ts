export type ChatRole = 'system' | 'user' | 'assistant';
export type ModelMessage = { role: ChatRole; content: string };

export type ModelRequest = {
  model: string;
  messages: ModelMessage[];
  temperature: number;
  maxTokens: number;
  /** The answer is to be JSON of this schema; whoever asks still checks it. */
  responseSchema?: { name: string; schema: Record<string, unknown> };
  signal: AbortSignal;
};

/** Token counts as the provider reports them; `cachedInputTokens` is a part of `inputTokens`. */
export type ModelUsage = { inputTokens: number; cachedInputTokens: number; completionTokens: number };

export type ModelReply = { text: string; model: string; usage: ModelUsage };

/**
 * A chat model behind the Chat Completions protocol. Errors as in `Embedder`. What it says comes without that which no
 * database can store (NUL, half of a character).
 */
export type ChatModel = {
  /** Calls `onToken` with each piece of text as it comes; resolves with the whole when the stream ended well. */
  stream(request: ModelRequest, onToken: (text: string) => void): Promise<ModelReply>;
  complete(request: ModelRequest): Promise<ModelReply>;
};
