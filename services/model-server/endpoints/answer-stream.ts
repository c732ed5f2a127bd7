import type { ServerResponse } from 'node:http';
import type { ChatResult } from '../chat/chat-request.ts';
import { toOpenAiError } from '../openai-error.ts';
import { type CompletionHead, toWireCall, toWireUsage } from './completion.ts';

/** Clients and proxies give up a stream that is silent for half a minute and more. */
const WORD_EVERY_MS = 10_000;

/**
 * The stream begins with the first piece, so that what fails before it is an answer with a status; and with a comment
 * when there is none for long, because a request may wait its turn, and a prompt be read, for minutes. Nothing waits
 * for a slow reader: an answer is small, and the model is for the next one.
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
    /** What fails after the beginning is told in the stream. */
    fail(error: unknown): void {
      if (response.headersSent) {
        write(`data: ${JSON.stringify(toOpenAiError(error).toBody())}`);
        response.end();
      }
      clearInterval(silence);
    },
  };
}
