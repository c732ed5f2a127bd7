import { isPlainObject } from '#src/adapters/providers.ts';
import { toPostgresText } from '#src/domain/text/plain-text.ts';
import { type AppError, appError } from '#src/errors.ts';
import type {
  ChatModel,
  ModelMessage,
  ModelReply,
  ModelRequest,
  ModelToolCall,
  ModelUsage,
  TruncationReason,
} from '#src/ports/models.ts';
import {
  createModelCapabilityLearner,
  type ModelCapabilities,
  type ModelCapabilityLearner,
} from './model-capabilities.ts';
import {
  createModelErrorMapper,
  createOpenAiClient,
  createSizeLimitedFetch,
  type ModelEndpoint,
  maxModelResponseBytes,
} from './openai-client.ts';

/** Time limit for a pause in a stream; model services send at least SSE comments while they work. */
const silenceTimeoutMs = 60_000;
/** Time limit for a whole stream: enough for ten thousand tokens of a slow model under CPU contention. */
const longestStreamMs = 60 * 60_000;
const bytesPerToken = 4_096;
const maxEventBytes = 1_000_000;

/**
 * The packaged model server serves streams before other calls, because users wait for them; this header marks a stream
 * that no user reads.
 */
const backgroundStream = { 'x-urgency': 'judge' };

const maxReplyCharacters = 4_000_000;

const noUsage: ModelUsage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };

export function createChatModel(
  endpoint: ModelEndpoint,
  watch = () => createStreamTimeout(silenceTimeoutMs, longestStreamMs),
  capabilities: ModelCapabilityLearner = createModelCapabilityLearner(),
): ChatModel {
  const client = createOpenAiClient(endpoint, silenceTimeoutMs);
  const toModelError = createModelErrorMapper(endpoint);

  /** Repeats a call with other parameters if its error shows that the model does not accept the first ones. */
  async function ask<Answer>(request: ModelRequest, call: (body: ChatBody) => Promise<Answer>): Promise<Answer> {
    for (let tried = capabilities.of(request.model); ; ) {
      try {
        return await call(bodyOf(request, tried));
      } catch (error) {
        const better = capabilities.learn(request.model, tried, error);
        if (better === null) throw error;
        tried = better;
      }
    }
  }

  async function stream(request: ModelRequest, onToken: (text: string) => void): Promise<ModelReply> {
    const silence = watch();
    const signal = AbortSignal.any([request.signal, silence.signal]);
    const maxBytes = maxModelResponseBytes + request.maxTokens * bytesPerToken;
    const limited = createSizeLimitedFetch({ maxBytes, maxEventBytes, deadlineMs: silenceTimeoutMs }, silence.heard);
    const { completions } = client.withOptions({ fetch: limited }).chat;
    const storable = createStorablePieces();
    const called = createToolCallAssembler();
    let text = '';
    const add = (piece: string) => {
      if (piece === '') return;
      text += piece;
      if (text.length > maxReplyCharacters) throw invalid('it is too long');
      onToken(piece);
    };
    let usage: ModelUsage | undefined;
    let end: ChatAnswer['end'] = 'none';
    try {
      const headers = request.timeoutMs === null ? backgroundStream : {};
      const chunks = await ask(request, (body) =>
        completions.create({ ...body, stream: true, stream_options: { include_usage: true } }, { signal, headers }),
      );
      for await (const chunk of chunks) {
        const piece = readChatAnswer(chunk, 'delta');
        add(storable.next(piece.text));
        called.add(piece.toolCalls);
        if (piece.end === 'broken') throw invalid('the service reports that it is incomplete');
        if (piece.end !== 'none') end = piece.end;
        usage = piece.usage ?? usage;
      }
      // The OpenAI client ends an aborted stream without throwing an error.
      signal.throwIfAborted();
    } catch (error) {
      throw toModelError(error, signal);
    } finally {
      silence.stop();
    }
    if (end === 'none') throw invalid('it ended without a finish_reason');
    add(storable.rest());
    return replyOf(request, { text, end, usage }, called.calls());
  }

  async function complete(request: ModelRequest): Promise<ModelReply> {
    const { signal, timeoutMs = silenceTimeoutMs } = request;
    if (timeoutMs === null) return stream(request, () => undefined);
    const limited = createSizeLimitedFetch({ maxBytes: maxModelResponseBytes, deadlineMs: timeoutMs });
    const { completions } = client.withOptions({ fetch: limited }).chat;
    const call = (body: ChatBody) => completions.create(body, { signal, timeout: timeoutMs });
    const answer = await ask(request, call).catch((error: unknown) => {
      throw toModelError(error, signal);
    });
    const { text, toolCalls, end, usage } = readChatAnswer(answer, 'message');
    if (end === 'broken') throw invalid('the service reports that it is incomplete');
    const called = createToolCallAssembler();
    called.add(toolCalls);
    return replyOf(request, { text: toPostgresText(text), end, usage }, called.calls());
  }

  return { stream, complete };
}

type ChatBody = ReturnType<typeof bodyOf>;

function bodyOf(request: ModelRequest, capabilities: ModelCapabilities) {
  const { limit, takesTemperature, takesSeed, takesTools, keepsTools, format } = capabilities;
  const { model, messages, temperature, seed, maxTokens, tools = [], mayCall = true, responseSchema } = request;
  return {
    model,
    messages: messages.map(toWireMessage),
    ...(takesTools &&
      tools.length > 0 &&
      (mayCall || keepsTools) && {
        tools: tools.map((tool) => ({ type: 'function' as const, function: { ...tool } })),
        tool_choice: mayCall ? ('auto' as const) : ('none' as const),
      }),
    ...(takesTemperature && { temperature }),
    ...(takesSeed && seed !== undefined && { seed }),
    [limit]: maxTokens,
    ...(responseSchema &&
      format === 'json_schema' && {
        response_format: { type: format, json_schema: { ...responseSchema, strict: true } },
      }),
    ...(responseSchema && format === 'json_object' && { response_format: { type: format } }),
  };
}

function toWireMessage(message: ModelMessage) {
  if (message.role === 'tool') {
    return { role: message.role, tool_call_id: message.toolCallId, content: message.content };
  }
  if (message.role !== 'assistant' || message.toolCalls === undefined) return { ...message };
  const { role, content, toolCalls } = message;
  return {
    role,
    content,
    tool_calls: toolCalls.map(({ id, name, arguments: args }) => {
      return { id, type: 'function' as const, function: { name, arguments: args } };
    }),
  };
}

function replyOf(
  { model, tools = [], mayCall = true }: ModelRequest,
  { text, end, usage = noUsage }: Pick<ChatAnswer, 'text' | 'end' | 'usage'>,
  called: readonly ModelToolCall[],
): ModelReply {
  // Drops tool calls that the request did not allow. A reply without text keeps them, because they show why it is
  // empty.
  const isBlank = text.trim() === '';
  const toolCalls = tools.length > 0 && (mayCall || isBlank) ? called : [];
  if (isBlank && toolCalls.length === 0) throw invalid('it is empty');
  const isCut = end === 'length' || end === 'content_filter';
  return { text, model, usage, ...(toolCalls.length > 0 && { toolCalls }), ...(isCut && { truncatedBy: end }) };
}

function invalid(reason: string): AppError {
  return appError('model_response_invalid', { detail: `The response of the chat model is invalid: ${reason}.` });
}

export type StreamTimeout = {
  signal: AbortSignal;
  heard(): void;
  stop(): void;
};

/** Time limits for the body of a stream: the OpenAI client's own timeout ends when the headers arrive. */
export function createStreamTimeout(timeoutMs: number, longestMs: number): StreamTimeout {
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
 * Makes streamed text storable in Postgres: holds back half of a split surrogate pair until the other half arrives.
 */
function createStorablePieces() {
  let half = '';
  return {
    next(piece: string): string {
      const text = half + piece;
      half = /[\ud800-\udbff]$/.exec(text)?.[0] ?? '';
      return toPostgresText(text.slice(0, text.length - half.length));
    },
    rest: () => toPostgresText(half),
  };
}

/** Limits of one tool call: longer names and arguments are truncated, so that executing the call fails. */
const maxNameCharacters = 200;
const maxArgumentCharacters = 200_000;
/** Limits of all tool calls of a reply together: a model that exceeds them is in a loop. */
const maxCalls = 64;
const maxCharacters = 4_000_000;

type CallSoFar = { index: number | null; id: string; name: string; args: string };

/**
 * Assembles tool calls from a whole reply or from the deltas of a stream. Services differ: a delta may lack its index,
 * or have the index of another call with a different id; names may be split or repeated; arguments may be an object.
 * Anything else becomes a call without a name, which is rejected later. Throws `model_response_invalid` only beyond the
 * limits.
 */
export function createToolCallAssembler() {
  const calls: CallSoFar[] = [];
  let characters = 0;

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
    const piece = isPlainObject(value) ? value : {};
    // Some model services send `function: null` first, and the name of the tool in a later piece.
    const said = isPlainObject(piece.function) ? piece.function : {};
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
    add(toolCalls: unknown): void {
      if (toolCalls === null || toolCalls === undefined) return;
      if (Array.isArray(toolCalls)) toolCalls.forEach(addOne);
      else addOne(toolCalls);
    },
    calls: (): ModelToolCall[] =>
      calls.map(({ name, args }) => ({ name: toPostgresText(name.trim()), arguments: toPostgresText(args) })),
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

type ChatAnswer = {
  text: string;
  toolCalls: unknown;
  end: 'none' | 'good' | 'broken' | TruncationReason;
  usage: ModelUsage | undefined;
};

const nothing = { text: '', toolCalls: undefined, end: 'none' } as const;

function readChatAnswer(answer: unknown, part: 'message' | 'delta'): ChatAnswer {
  if (!isPlainObject(answer)) return { ...nothing, usage: undefined };
  const choices: unknown[] = Array.isArray(answer.choices) ? answer.choices : [];
  const choice = choices.filter(isPlainObject).find(({ index = 0 }) => index === 0);
  if (choice === undefined) return { ...nothing, usage: usageOf(answer.usage) };
  const said = choice[part];
  return {
    text: isPlainObject(said) ? textOf(said.content) : '',
    toolCalls: isPlainObject(said) ? said.tool_calls : undefined,
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

/** Joins the text parts of a message, without the parts that hold the model's reasoning. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (isPlainObject(part) && part.type === 'text' ? textOf(part.text) : '')).join('');
}

function usageOf(usage: unknown): ModelUsage | undefined {
  if (!isPlainObject(usage)) return undefined;
  const details = isPlainObject(usage.prompt_tokens_details) ? usage.prompt_tokens_details : {};
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
