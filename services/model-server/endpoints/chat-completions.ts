import { randomUUID } from 'node:crypto';
import type { ChatResult } from '../chat/chat-request.ts';
import type { Endpoint } from '../endpoint.ts';
import { readJson } from '../json-request.ts';
import { openAnswerStream } from './answer-stream.ts';
import { chatBody, toChatRequest } from './chat-body.ts';
import { type CompletionHead, toWireCall, toWireUsage } from './completion.ts';

export const chatCompletions: Endpoint = async ({ request, response, models, signal }) => {
  const body = await readJson(request, chatBody);
  const answer = models.answerer(body.model);
  const asked = toChatRequest(body, { isWatched: request.headers['x-urgency'] !== 'judge' });
  const head = { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model: body.model };

  if (!body.stream) {
    let text = '';
    const add = (piece: string): void => {
      text += piece;
    };
    const result = await answer(asked, add, signal);
    return wholeAnswer(head, text, result);
  }
  const stream = openAnswerStream(response, { head, includeUsage: body.stream_options?.include_usage ?? false });
  try {
    stream.end(await answer(asked, stream.text, signal));
  } catch (error) {
    stream.fail(error);
    throw error;
  }
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
