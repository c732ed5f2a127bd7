export type ChatMessage = {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
  toolCalls?: ToolCall[];
};

/** A tool call; `arguments` is JSON text. */
export type ToolCall = { name: string; arguments: string };

export type Tool = { name: string; description?: string; parameters: unknown };

export type ChatRequest = {
  messages: ChatMessage[];
  tools: Tool[];
  toolChoice: 'auto' | 'none' | 'required' | { name: string };
  /** The JSON that the answer must be: an instance of the schema, any object (`'object'`), or no JSON (null). */
  format: { schema: unknown } | 'object' | null;
  stops: string[];
  maxTokens: number | null;
  temperature: number | null;
  topP: number | null;
  seed: number | null;
  urgency: Urgency;
};

/**
 * Scheduling priority of a chat request: a user watches the stream (`chat`), a program waits (`judge`), or nothing
 * waits (`batch`).
 */
export type Urgency = 'chat' | 'judge' | 'batch';

export type Usage = { promptTokens: number; cachedTokens: number; completionTokens: number };

export type ChatResult = {
  finishReason: 'stop' | 'length' | 'tool_calls';
  toolCall: ToolCall | null;
  usage: Usage;
};

/**
 * Answers one chat request; `onText` receives the text in pieces as it is generated.
 * @throws OpenAiError, or the abort reason of the signal
 */
export type Answerer = (
  request: ChatRequest,
  onText: (piece: string) => void,
  signal: AbortSignal,
) => Promise<ChatResult>;
