import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { ChatResult, ToolCall, Usage } from '../chat/chat-request.ts';
import type { Endpoint } from '../endpoint.ts';
import { readJson } from '../json-request.ts';
import { chatBody, toChatRequest } from './chat-body.ts';

type CompletionHead = { id: string; created: number; model: string };

/** `POST /v1/chat/completions`, whole or as server-sent events. */
export const chatCompletions: Endpoint = async ({ request, response, models, signal }) => {
  const body = await readJson(request, chatBody);
  const answer = models.answerer(body.model);
  const head = { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model: body.model };

  if (!body.stream) {
    let text = '';
    const add = (piece: string): void => {
      text += piece;
    };
    const result = await answer(toChatRequest(body), add, signal);
    return wholeAnswer(head, text, result);
  }
  const stream = answerStream(response, head, body.stream_options?.include_usage ?? false);
  stream.end(await answer(toChatRequest(body), stream.text, signal));
  return undefined;
};

function wholeAnswer(head: CompletionHead, text: string, { finishReason, toolCall, usage }: ChatResult) {
  const message = {
    role: 'assistant',
    content: toolCall && text === '' ? null : text,
    refusal: null,
    ...(toolCall && { tool_calls: [toWireCall(toolCall)] }),
  };
  const choice = { index: 0, message, finish_reason: finishReason, logprobs: null };
  return { ...head, object: 'chat.completion', choices: [choice], usage: toWireUsage(usage) };
}

/**
 * The stream begins with the first piece, so that what fails before it is an answer with a status. Nothing waits for a
 * slow reader: an answer is small, and the model is for the next one.
 */
function answerStream(response: ServerResponse, head: CompletionHead, includeUsage: boolean) {
  const send = (event: object): void => {
    response.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...event })}\n\n`);
  };
  const sendChoice = (delta: object, finish: string | null = null): void =>
    send({
      choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }],
      ...(includeUsage && { usage: null }),
    });
  const begin = (): void => {
    if (response.headersSent) return;
    response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    sendChoice({ role: 'assistant', content: '' });
  };

  return {
    text(piece: string): void {
      begin();
      sendChoice({ content: piece });
    },
    end({ finishReason, toolCall, usage }: ChatResult): void {
      begin();
      if (toolCall) sendChoice({ tool_calls: [{ index: 0, ...toWireCall(toolCall) }] });
      sendChoice({}, finishReason);
      if (includeUsage) send({ choices: [], usage: toWireUsage(usage) });
      response.end('data: [DONE]\n\n');
    },
  };
}

function toWireCall(call: ToolCall) {
  return { id: `call_${randomUUID()}`, type: 'function', function: call };
}

function toWireUsage({ promptTokens, cachedTokens, completionTokens }: Usage) {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
    prompt_tokens_details: { cached_tokens: cachedTokens },
  };
}
