import { isRecord } from '#src/adapters/provider-json.ts';
import type { ModelUsage, Truncation } from '#src/ports/models.ts';

/** Beyond it a count is no count: no model reads or writes as much, and no column holds more. */
const maxTokens = 1_000_000_000;

/** What there is of an answer, or of a piece of one. */
export type ChatAnswer = {
  text: string;
  /** As it stands there: see `createToolCallPieces`. */
  toolCalls: unknown;
  end: 'none' | 'good' | 'broken' | Truncation;
  usage: ModelUsage | undefined;
};

const nothing = { text: '', toolCalls: undefined, end: 'none' } as const;

/** Reads an answer of Chat Completions as it came, whole (`message`) or a piece of a stream (`delta`). */
export function readChatAnswer(answer: unknown, part: 'message' | 'delta'): ChatAnswer {
  if (!isRecord(answer)) return { ...nothing, usage: undefined };
  const choices: unknown[] = Array.isArray(answer.choices) ? answer.choices : [];
  const choice = choices.filter(isRecord).find(({ index = 0 }) => index === 0);
  if (choice === undefined) return { ...nothing, usage: usageOf(answer.usage) };
  const said = choice[part];
  return {
    text: isRecord(said) ? textOf(said.content) : '',
    toolCalls: isRecord(said) ? said.tool_calls : undefined,
    end: endOf(choice.finish_reason),
    usage: usageOf(answer.usage),
  };
}

/** A service that passes on what another one says tells so that the other one has failed. */
function endOf(reason: unknown): ChatAnswer['end'] {
  if (!reason) return 'none';
  if (reason === 'length' || reason === 'content_filter') return reason;
  return reason === 'error' ? 'broken' : 'good';
}

/** Some services answer in parts, and the model's thoughts are parts of their own. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (isRecord(part) && part.type === 'text' ? textOf(part.text) : '')).join('');
}

function usageOf(usage: unknown): ModelUsage | undefined {
  if (!isRecord(usage)) return undefined;
  const details = isRecord(usage.prompt_tokens_details) ? usage.prompt_tokens_details : {};
  const inputTokens = countOf(usage.prompt_tokens);
  return {
    inputTokens,
    cachedInputTokens: Math.min(inputTokens, countOf(details.cached_tokens)),
    completionTokens: countOf(usage.completion_tokens),
  };
}

function countOf(value: unknown): number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= maxTokens ? value : 0;
}
