import type { ServerResponse } from 'node:http';
import type { ChatResult } from '../chat/chat-request.ts';
import { toOpenAiError } from '../openai-error.ts';
import { type CompletionHead, toWireCall, toWireUsage } from './completion.ts';

/** Interval of keep-alive comments: clients and proxies close a stream that is silent for 30 s. */
const WORD_EVERY_MS = 10_000;

/**
 * Opens an SSE stream. Headers are sent with the first text, so that earlier failures have an HTTP status, or with a
 * keep-alive comment if queueing or prompt evaluation takes long. There is no backpressure: an answer is small, and a
 * slow reader must not hold the model.
 */
export function openAnswerStream(
  response: ServerResponse,
  options: { head: CompletionHead; includeUsage: boolean; wordEveryMs?: number },
) {
  const { head, includeUsage, wordEveryMs = WORD_EVERY_MS } = options;
  const write = (event: string): void => {
    if (response.destroyed) return;
    if (!response.headersSent) {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
    }
    response.write(`${event}\n\n`);
    silence.refresh();
  };
  const silence = setInterval(() => write(': waiting'), wordEveryMs);
  const send = (event: object): void =>
    write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...event })}`);
  const sendChoice = (delta: object, finish: string | null = null): void =>
    send({
      choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }],
      ...(includeUsage && { usage: null }),
    });
  let hasBegun = false;
  const begin = (): void => {
    if (!hasBegun) sendChoice({ role: 'assistant', content: '' });
    hasBegun = true;
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
      write('data: [DONE]');
      response.end();
      clearInterval(silence);
    },
    fail(error: unknown): void {
      if (response.headersSent) {
        write(`data: ${JSON.stringify(toOpenAiError(error).toBody())}`);
        response.end();
      }
      clearInterval(silence);
    },
  };
}
