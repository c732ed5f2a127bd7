import { toStorable } from '#src/domain/text/plain-text.ts';
import { type AppError, appError } from '#src/errors.ts';
import type {
  ChatModel,
  ModelMessage,
  ModelReply,
  ModelRequest,
  ModelToolCall,
  ModelUsage,
} from '#src/ports/models.ts';
import {
  type ChatAnswer,
  createStorablePieces,
  createToolCallPieces,
  readChatAnswer,
  watchSilence,
} from './chat-reply.ts';
import { createModelCapabilities, type LearnedCapabilities, type ModelCapabilities } from './model-capabilities.ts';
import { createModelErrors, createOpenAiClient, type Endpoint, limitedFetch, maxAnswerBytes } from './openai-client.ts';

/** Longest silence of a stream; services send at least comments while they work. */
const silenceTimeoutMs = 60_000;
/** Longest stream: ten thousand tokens of a slow model under CPU contention. */
const longestStreamMs = 60 * 60_000;
/** Size limit of a stream per requested token; an event is a few hundred bytes of JSON. */
const bytesPerToken = 4_096;
const maxEventBytes = 1_000_000;

/** The packaged model server prefers streams, because a user reads along; this header marks a stream without a reader. */
const backgroundStream = { 'x-urgency': 'judge' };

/** Protects the memory from a model that repeats itself without end. */
const maxReplyCharacters = 4_000_000;

const noUsage: ModelUsage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };

/** Chat models over Chat Completions. Callers retry, because they know whether a user waits. */
export function createChatModel(
  endpoint: Endpoint,
  watch = () => watchSilence(silenceTimeoutMs, longestStreamMs),
  capabilities: LearnedCapabilities = createModelCapabilities(),
): ChatModel {
  const client = createOpenAiClient(endpoint, silenceTimeoutMs);
  const toModelError = createModelErrors(endpoint);

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
    const maxBytes = maxAnswerBytes + request.maxTokens * bytesPerToken;
    const limited = limitedFetch({ maxBytes, maxEventBytes, deadlineMs: silenceTimeoutMs }, silence.heard);
    const { completions } = client.withOptions({ fetch: limited }).chat;
    const storable = createStorablePieces();
    const called = createToolCallPieces();
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
      // An aborted stream ends without an error.
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
    const limited = limitedFetch({ maxBytes: maxAnswerBytes, deadlineMs: timeoutMs });
    const { completions } = client.withOptions({ fetch: limited }).chat;
    const call = (body: ChatBody) => completions.create(body, { signal, timeout: timeoutMs });
    const answer = await ask(request, call).catch((error: unknown) => {
      throw toModelError(error, signal);
    });
    const { text, toolCalls, end, usage } = readChatAnswer(answer, 'message');
    if (end === 'broken') throw invalid('the service reports that it is incomplete');
    const called = createToolCallPieces();
    called.add(toolCalls);
    return replyOf(request, { text: toStorable(text), end, usage }, called.calls());
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
  // Calls that were not allowed are dropped, unless the reply has nothing else; then they explain the empty text.
  const isBlank = text.trim() === '';
  const toolCalls = tools.length > 0 && (mayCall || isBlank) ? called : [];
  if (isBlank && toolCalls.length === 0) throw invalid('it is empty');
  const isCut = end === 'length' || end === 'content_filter';
  return { text, model, usage, ...(toolCalls.length > 0 && { toolCalls }), ...(isCut && { truncatedBy: end }) };
}

function invalid(reason: string): AppError {
  return appError('model_response_invalid', { detail: `The response of the chat model is invalid: ${reason}.` });
}
