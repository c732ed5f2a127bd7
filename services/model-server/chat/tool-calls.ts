import type { ChatMessage, ChatRequest, Tool, ToolCall } from './chat-request.ts';

/** The opening mark of a tool call in the Qwen models' training data. */
export const CALL_OPENING = '<tool_call>\n';

/** The Qwen coder models often write a tool call bare or in a code block, with one brace or two. */
const BARE_CALL = /^\s*(?:```(?:json)?\s*)?\{{1,2}\s*"name"\s*:\s*"([^"]*)"/;
const BARE_CALL_SO_FAR = /^\s*(?:`{0,3}|```j?s?o?n?\s*|(?:```(?:json)?\s*)?\{{1,2}[^}]{0,80})$/;
const OPENING_MARK = '<tool_call>';

export type Recognition =
  | { kind: 'call'; text: string }
  | { kind: 'nonsense' }
  | { kind: 'unclear' }
  | { kind: 'text' };

/** Classifies an answer as generated so far: a tool call, the possible beginning of one, or text. */
export function recognizeCall(answer: string, tools: readonly Tool[]): Recognition {
  const mark = answer.indexOf(OPENING_MARK);
  if (mark >= 0) return { kind: 'call', text: answer.slice(0, mark) };
  const [, name] = BARE_CALL.exec(answer) ?? [];
  if (name !== undefined)
    return tools.some((tool) => tool.name === name) ? { kind: 'call', text: '' } : { kind: 'nonsense' };
  return { kind: BARE_CALL_SO_FAR.test(answer) ? 'unclear' : 'text' };
}

export function callableTools({ tools, toolChoice }: Pick<ChatRequest, 'tools' | 'toolChoice'>): Tool[] {
  if (toolChoice === 'none') return [];
  return typeof toolChoice === 'object' ? tools.filter(({ name }) => name === toolChoice.name) : tools;
}

export function callSchema(tools: readonly Tool[]): unknown {
  return {
    oneOf: tools.map(({ name, parameters }) => ({
      type: 'object',
      properties: {
        name: { const: name },
        arguments: toGrammarSchema(parameters ?? { type: 'object', properties: {} }),
      },
    })),
  };
}

/** Parses a tool call that was generated under the grammar; null if it was cut off by the token limit. */
export function readCall(json: string): ToolCall | null {
  const { name, arguments: args } = parseObject(json);
  return typeof name === 'string' ? { name, arguments: JSON.stringify(args ?? {}) } : null;
}

/**
 * Whether the conversation already has this tool call: small models repeat calls endlessly. Arguments that the earlier
 * call omitted are ignored, because the grammar also writes optional ones.
 */
export function isRepeated(call: ToolCall, messages: readonly ChatMessage[]): boolean {
  const args = parseObject(call.arguments);
  const earlier = messages.flatMap(({ toolCalls }) => toolCalls ?? []).filter(({ name }) => name === call.name);
  return earlier.some(({ arguments: json }) =>
    Object.entries(parseObject(json)).every(([key, value]) => JSON.stringify(args[key]) === JSON.stringify(value)),
  );
}

export function parseObject(json: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

/** The grammar supports `oneOf` only, while generated JSON schemas mostly use `anyOf`. */
export function toGrammarSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toGrammarSchema);
  if (typeof schema !== 'object' || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key === 'anyOf' ? 'oneOf' : key, toGrammarSchema(value)]),
  );
}
