import type { ChatMessage, ChatRequest, Tool, ToolCall } from './chat-request.ts';

/** What the model's training put around a call. */
export const CALL_OPENING = '<tool_call>\n';

/** The coder models write a call bare or as a code block instead, with one brace or two. */
const BARE_CALL = /^\s*(?:```(?:json)?\s*)?\{{1,2}\s*"name"\s*:\s*"([^"]*)"/;
const BARE_CALL_SO_FAR = /^\s*(?:`{0,3}|```j?s?o?n?\s*|(?:```(?:json)?\s*)?\{{1,2}[^}]{0,80})$/;
const OPENING_MARK = '<tool_call>';

export type Recognition =
  /** `text` is what stands before the call. */
  | { kind: 'call'; text: string }
  /** A call of something that is no tool. */
  | { kind: 'nonsense' }
  | { kind: 'unclear' }
  | { kind: 'text' };

/** Whether an answer so far is a call, may become one, or is text. */
export function recognizeCall(answer: string, tools: readonly Tool[]): Recognition {
  const mark = answer.indexOf(OPENING_MARK);
  if (mark >= 0) return { kind: 'call', text: answer.slice(0, mark) };
  const [, name] = BARE_CALL.exec(answer) ?? [];
  if (name !== undefined)
    return tools.some((tool) => tool.name === name) ? { kind: 'call', text: '' } : { kind: 'nonsense' };
  return { kind: BARE_CALL_SO_FAR.test(answer) ? 'unclear' : 'text' };
}

/** The tools that may be called; none when the request has none or forbids them. */
export function callableTools({ tools, toolChoice }: Pick<ChatRequest, 'tools' | 'toolChoice'>): Tool[] {
  if (toolChoice === 'none') return [];
  return typeof toolChoice === 'object' ? tools.filter(({ name }) => name === toolChoice.name) : tools;
}

/** The JSON of a call of one of the tools. */
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

/** Reads a call that was written by the grammar; null when it was cut off. */
export function readCall(json: string): ToolCall | null {
  const { name, arguments: args } = parseObject(json);
  return typeof name === 'string' ? { name, arguments: JSON.stringify(args ?? {}) } : null;
}

/**
 * Whether the conversation has this call already: small models go round in circles. What the earlier one left out does
 * not count, as the grammar writes optional arguments too.
 */
export function isRepeated(call: ToolCall, messages: readonly ChatMessage[]): boolean {
  const args = parseObject(call.arguments);
  const earlier = messages.flatMap(({ toolCalls }) => toolCalls ?? []).filter(({ name }) => name === call.name);
  return earlier.some(({ arguments: json }) =>
    Object.entries(parseObject(json)).every(([key, value]) => JSON.stringify(args[key]) === JSON.stringify(value)),
  );
}

/** The object that a JSON text holds; an empty one for anything else. */
export function parseObject(json: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(json);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

/** The grammar knows `oneOf`, and JSON schemas that programs make say `anyOf`. */
export function toGrammarSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(toGrammarSchema);
  if (typeof schema !== 'object' || schema === null) return schema;
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key === 'anyOf' ? 'oneOf' : key, toGrammarSchema(value)]),
  );
}
