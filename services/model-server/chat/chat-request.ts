/** A message as the protocol has it, its content as one text. */
export type ChatMessage = {
  role: 'system' | 'user' | 'assistant' | 'tool';
  content: string;
  /** Calls that the assistant made in an earlier turn. */
  toolCalls?: ToolCall[];
};

/** `arguments` is JSON. */
export type ToolCall = { name: string; arguments: string };

export type Tool = { name: string; description?: string; parameters: unknown };

export type ChatRequest = {
  messages: ChatMessage[];
  tools: Tool[];
  /** `name` and `required` force a call. */
  toolChoice: 'auto' | 'none' | 'required' | { name: string };
  /** The JSON that the answer must be: of this schema, or any object. */
  format: { schema: unknown } | 'object' | null;
  stops: string[];
  maxTokens: number | null;
  temperature: number | null;
  topP: number | null;
  seed: number | null;
  urgency: Urgency;
};

/** Who waits: a person who watches the answer come, a program that wants it whole, or nobody. */
export type Urgency = 'chat' | 'judge' | 'batch';

export type Usage = { promptTokens: number; cachedTokens: number; completionTokens: number };

export type ChatResult = {
  finishReason: 'stop' | 'length' | 'tool_calls';
  toolCall: ToolCall | null;
  usage: Usage;
};

/**
 * Answers one request; `onText` gets the text in pieces as it comes.
 * @throws OpenAiError, and the signal's reason once it is aborted
 */
export type Answerer = (
  request: ChatRequest,
  onText: (piece: string) => void,
  signal: AbortSignal,
) => Promise<ChatResult>;
