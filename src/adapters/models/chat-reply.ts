import { isRecord } from '#src/adapters/provider-answers.ts';
import { toStorable } from '#src/domain/text/plain-text.ts';
import { type AppError, appError } from '#src/errors.ts';
import type { ModelToolCall, ModelUsage, Truncation } from '#src/ports/models.ts';

export type Silence = {
  /** Aborted when the silence or the whole stream is too long. */
  signal: AbortSignal;
  heard(): void;
  stop(): void;
};

/**
 * Needed because the client's own timeout ends with the headers of a stream.
 * @param longestMs limit for the whole stream
 */
export function watchSilence(timeoutMs: number, longestMs: number): Silence {
  const controller = new AbortController();
  const giveUp = (detail: string) => controller.abort(appError('model_unavailable', { detail }));
  const silence = setTimeout(giveUp, timeoutMs, 'The model service stopped answering.');
  const end = setTimeout(giveUp, longestMs, 'The model service did not finish its response in time.');
  return {
    signal: controller.signal,
    heard: () => silence.refresh(),
    stop: () => {
      clearTimeout(silence);
      clearTimeout(end);
    },
  };
}

/**
 * Makes a streamed text storable. The first half of a surrogate pair at the end of a piece is held back until the second
 * half arrives.
 */
export function createStorablePieces() {
  let half = '';
  return {
    next(piece: string): string {
      const text = half + piece;
      half = /[\ud800-\udbff]$/.exec(text)?.[0] ?? '';
      return toStorable(text.slice(0, text.length - half.length));
    },
    /** The rest at the end of the stream. */
    rest: () => toStorable(half),
  };
}

/** Longer tool names and arguments are truncated; the tool call is then rejected when it is executed. */
const maxNameCharacters = 200;
const maxArgumentCharacters = 200_000;
/** A model that exceeds the number or the size of tool calls is in a loop. */
const maxCalls = 64;
const maxCharacters = 4_000_000;

type CallSoFar = { index: number | null; id: string; name: string; args: string };

/**
 * Assembles tool calls from a whole reply or from pieces of a stream. Services differ: a piece may lack its index, or have
 * the index of another call with a different id; names may be split or repeated; arguments may be an object. Anything
 * else becomes a call without a name, which is rejected later. Throws `model_response_invalid` only beyond the limits.
 */
export function createToolCallPieces() {
  const calls: CallSoFar[] = [];
  let characters = 0;

  /** The call that a piece continues, or a new one. */
  function callOf(index: number | null, id: string, name: string): CallSoFar {
    const last = calls.at(-1);
    const known = index === null ? last : calls.findLast((call) => call.index === index);
    const isOther = id !== '' && known !== undefined && known.id !== '' && known.id !== id;
    const isNext = index === null && name !== '' && id === '' && known !== undefined && known.args !== '';
    if (known !== undefined && !isOther && !isNext) return known;
    if (calls.length === maxCalls) throw tooManyCalls();
    const call = { index, id, name: '', args: '' };
    calls.push(call);
    return call;
  }

  function addOne(value: unknown): void {
    const piece = isRecord(value) ? value : {};
    // Some services send `function: null` first, and the name in a later piece.
    const said = isRecord(piece.function) ? piece.function : {};
    const id = stringOf(piece.id);
    const name = stringOf(said.name);
    const args = argumentsOf(said.arguments);
    characters += name.length + args.length;
    if (characters > maxCharacters) throw tooManyCalls();
    const call = callOf(Number.isInteger(piece.index) ? Number(piece.index) : null, id, name);
    call.id ||= id;
    if (name !== call.name) call.name = (call.name + name).slice(0, maxNameCharacters);
    call.args = (call.args + args).slice(0, maxArgumentCharacters);
  }

  return {
    /** @param toolCalls the field `tool_calls` of a reply or a piece */
    add(toolCalls: unknown): void {
      if (toolCalls === null || toolCalls === undefined) return;
      if (Array.isArray(toolCalls)) toolCalls.forEach(addOne);
      else addOne(toolCalls);
    },
    calls: (): ModelToolCall[] =>
      calls.map(({ name, args }) => ({ name: toStorable(name.trim()), arguments: toStorable(args) })),
  };
}

function stringOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function argumentsOf(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

function tooManyCalls(): AppError {
  return appError('model_response_invalid', {
    detail: 'The response of the chat model is invalid: it has too many or too long tool calls.',
  });
}

/** Larger token counts are read as 0: no model reaches them, and an integer column could not store them. */
const maxTokens = 1_000_000_000;

export type ChatAnswer = {
  text: string;
  /** Unparsed, for `createToolCallPieces`. */
  toolCalls: unknown;
  end: 'none' | 'good' | 'broken' | Truncation;
  usage: ModelUsage | undefined;
};

const nothing = { text: '', toolCalls: undefined, end: 'none' } as const;

/** Reads a Chat Completions response: a whole one (`message`) or a piece of a stream (`delta`). */
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

/** Gateways send the finish_reason `error` when the service behind them failed. */
function endOf(reason: unknown): ChatAnswer['end'] {
  if (!reason) return 'none';
  if (reason === 'length' || reason === 'content_filter') return reason;
  return reason === 'error' ? 'broken' : 'good';
}

/** Joins content parts, and leaves out parts with the model's reasoning. */
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
