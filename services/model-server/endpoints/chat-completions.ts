import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { z } from 'zod';
import type { Endpoint } from '../endpoint.ts';
import { answerExtractively } from '../extractive/answer.ts';
import { readJson } from '../json-request.ts';
import { extractiveModel } from '../model-manifest.ts';
import { modelNotFound, OpenAiError } from '../openai-error.ts';

const textPart = z.object({ type: z.literal('text'), text: z.string() }, { error: 'The model reads texts only.' });
const messageContent = z.union([z.string(), z.array(textPart), z.null()]).optional();

/** What is not named here (`tools`, `temperature`, `seed`) is accepted and has no effect. */
const chatBody = z.object({
  model: z.string(),
  messages: z
    .array(z.object({ role: z.enum(['system', 'developer', 'user', 'assistant', 'tool']), content: messageContent }))
    .min(1),
  stream: z.boolean().nullish(),
  stream_options: z.object({ include_usage: z.boolean().optional() }).nullish(),
  stop: z.union([z.string(), z.array(z.string()).max(4)]).nullish(),
  max_tokens: z.number().int().min(1).nullish(),
  max_completion_tokens: z.number().int().min(1).nullish(),
  n: z.literal(1, { error: 'The model gives one answer.' }).nullish(),
  response_format: z
    .discriminatedUnion('type', [
      z.object({ type: z.literal('text') }),
      z.object({ type: z.literal('json_schema'), json_schema: z.object({ schema: z.unknown() }) }),
    ])
    .nullish(),
});

type Usage = { prompt_tokens: number; completion_tokens: number; total_tokens: number };
/** The answer in words, each with the space before it. */
type Completion = { words: string[]; finishReason: 'stop' | 'length'; usage: Usage };
type CompletionHead = { id: string; created: number; model: string };

const WORDS_PER_CHUNK = 4;

/** `POST /v1/chat/completions`, whole or as server-sent events. */
export const chatCompletions: Endpoint = async ({ request, response, embedder, signal }) => {
  const body = await readJson(request, chatBody);
  if (body.model !== extractiveModel.id) throw modelNotFound(body.model, extractiveModel.id);

  const messages = body.messages.map(({ role, content }) => ({ role, content: textOf(content) }));
  const schema = body.response_format?.type === 'json_schema' ? body.response_format.json_schema.schema : undefined;
  const prompt = messages.map((message) => message.content);
  const promptTokens = sum(await embedder.countTokens(prompt, signal));
  if (promptTokens > extractiveModel.contextWindow) throw contextExceeded(promptTokens);

  const answer = await answerExtractively({ messages, schema }, async (texts) => {
    const embeddings = await embedder.embed(texts, signal);
    return embeddings.map(({ vector }) => vector);
  });
  const words = cutAtStop(answer, [body.stop ?? []].flat()).match(/\s*\S+/g) ?? [];
  const maxTokens = body.max_completion_tokens ?? body.max_tokens ?? Number.POSITIVE_INFINITY;
  const completion = limit(words, await embedder.countTokens(words, signal), maxTokens, promptTokens);

  const head = { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model: extractiveModel.id };
  if (!body.stream) return wholeAnswer(head, completion);
  await streamAnswer(response, head, completion, body.stream_options?.include_usage ?? false, signal);
  return undefined;
};

function contextExceeded(tokens: number): OpenAiError {
  return new OpenAiError(400, `The messages have ${tokens} tokens; the model takes ${extractiveModel.contextWindow}.`, {
    code: 'context_length_exceeded',
    param: 'messages',
  });
}

function textOf(content: z.infer<typeof messageContent>): string {
  return Array.isArray(content) ? content.map(({ text }) => text).join('\n') : (content ?? '');
}

function cutAtStop(answer: string, stops: string[]): string {
  const ends = stops.filter(Boolean).map((stop) => answer.indexOf(stop));
  return answer.slice(0, Math.min(answer.length, ...ends.filter((end) => end >= 0)));
}

function limit(words: string[], tokenCounts: number[], maxTokens: number, promptTokens: number): Completion {
  let tokens = 0;
  const end = tokenCounts.findIndex((count) => {
    if (tokens + count > maxTokens) return true;
    tokens += count;
    return false;
  });
  const usage = { prompt_tokens: promptTokens, completion_tokens: tokens, total_tokens: promptTokens + tokens };
  return end < 0
    ? { words, finishReason: 'stop', usage }
    : { words: words.slice(0, end), finishReason: 'length', usage };
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

function wholeAnswer(head: CompletionHead, { words, finishReason, usage }: Completion) {
  const message = { role: 'assistant', content: words.join(''), refusal: null };
  const choice = { index: 0, message, finish_reason: finishReason, logprobs: null };
  return { ...head, object: 'chat.completion', choices: [choice], usage };
}

async function streamAnswer(
  response: ServerResponse,
  head: CompletionHead,
  { words, finishReason, usage }: Completion,
  includeUsage: boolean,
  signal: AbortSignal,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  const send = async (event: object): Promise<void> => {
    const isFlowing = response.write(
      `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...event })}\n\n`,
    );
    if (!isFlowing) await once(response, 'drain', { signal });
  };
  const sendChoice = (delta: object, finish: string | null = null): Promise<void> =>
    send({
      choices: [{ index: 0, delta, finish_reason: finish, logprobs: null }],
      ...(includeUsage && { usage: null }),
    });

  await sendChoice({ role: 'assistant', content: '' });
  for (let index = 0; index < words.length; index += WORDS_PER_CHUNK) {
    await sendChoice({ content: words.slice(index, index + WORDS_PER_CHUNK).join('') });
  }
  await sendChoice({}, finishReason);
  if (includeUsage) await send({ choices: [], usage });
  response.end('data: [DONE]\n\n');
}
