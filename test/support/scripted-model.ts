import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { serveLocally } from './local-server.ts';
import { answerJson, type ScriptedAnswer } from './scripted-server.ts';
import { testModelBaseUrl } from './services.ts';

type WireToolCall = { id: string; type: 'function'; function: { name: string; arguments: string } };

export type ChatRequest = {
  model: string;
  messages: { role: string; content: string; tool_calls?: WireToolCall[]; tool_call_id?: string }[];
  tools?: { type: 'function'; function: { name: string; description: string; parameters: object } }[];
  tool_choice?: string;
  stream?: boolean;
  temperature?: number;
  max_tokens?: number;
  response_format?: object;
};

/** Text is streamed word by word, a list piece by piece; tool calls follow, their arguments in pieces of a few characters. */
type Spoken = {
  text: string | readonly string[];
  calls: readonly { name: string; args: unknown }[];
  /** Holds back all but the first piece, and an answer that is not streamed altogether. */
  until: Promise<unknown>;
  everyMs: number;
};
type Failure = { status: number; retryAfterSeconds?: number; code?: string; message?: string };

/** What the model does with one request. `raw` is the body of a stream, which stays open unless it `ends`. */
export type Behaviour =
  | ({ kind: 'answer' } & Pick<Spoken, 'text'> & Partial<Spoken>)
  | ({ kind: 'call' } & Pick<Spoken, 'calls'> & Partial<Spoken>)
  | ({ kind: 'status' } & Failure)
  | { kind: 'raw'; body: string; ends: boolean }
  | { kind: 'break_off'; text: string };

export type ScriptedModel = Awaited<ReturnType<typeof startScriptedModel>>;

export async function forwardEmbeddings(body: unknown, response: ServerResponse): Promise<void> {
  const answer = await fetch(`${testModelBaseUrl()}/embeddings`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
}

/** Every text that it was asked to embed, in the order of the calls. */
export function embeddedTexts({ calls }: ScriptedModel): string[] {
  return calls.flatMap(({ path, body }) => (path === '/embeddings' ? (body as { input: string[] }).input : []));
}

/** A chat model behind the real protocol that answers as told and records what it was asked. */
export async function startScriptedModel() {
  const calls: { path: string; authorization: string | undefined; body: unknown }[] = [];
  const requests: ChatRequest[] = [];
  const anchorRequests: ChatRequest[] = [];
  const open = new Set<ServerResponse>();
  const noWords = (_request: ChatRequest): Behaviour => ({ kind: 'answer', text: '{"words": []}' });
  let script = (_request: ChatRequest): Behaviour => ({ kind: 'answer', text: 'A scripted answer.' });
  let anchorScript = noWords;
  let embeddingScript: ScriptedAnswer | null = null;
  let rerankingScript: ScriptedAnswer | null = null;
  let models: readonly object[] = [];

  async function chat(request: ChatRequest, response: ServerResponse): Promise<void> {
    const start = request.messages[0]?.content ?? '';
    if (start.startsWith('Write a title')) return speak(response, request, { text: 'A scripted title' });
    const isForAnchors = start.startsWith('You propose words');
    (isForAnchors ? anchorRequests : requests).push(request);
    const behaviour = (isForAnchors ? anchorScript : script)(request);
    if (!isForAnchors) open.add(response);
    response.once('close', () => open.delete(response));
    switch (behaviour.kind) {
      case 'status':
        return fail(behaviour)(response, null as never);
      case 'break_off':
        sendDelta(openStream(response), request.model, { content: behaviour.text });
        // What was written still arrives, and then nothing.
        response.socket?.destroySoon();
        return;
      case 'raw':
        openStream(response).write(behaviour.body);
        if (behaviour.ends) response.end();
        return;
      default:
        return speak(response, request, behaviour);
    }
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { authorization } = request.headers;
    const path = (request.url ?? '').replace(/^\/v1/, '');
    const body = request.method === 'POST' ? await json(request) : null;
    calls.push({ path, authorization, body });
    if (path === '/chat/completions') return chat(body as ChatRequest, response);
    const answers: Record<string, ScriptedAnswer | null> = {
      '/models': answerJson(200, { object: 'list', data: models }),
      '/rerank': rerankingScript,
      '/embeddings': embeddingScript ?? ((reply, sent) => forwardEmbeddings(sent, reply)),
    };
    return (answers[path] ?? fail({ status: 404 }))(response, body as never);
  }

  const { baseUrl: origin, close } = await serveLocally((request, response) => {
    handle(request, response).catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });
  const baseUrl = `${origin}/v1`;

  return {
    baseUrl,
    settings: { OPENAI_BASE_URL: baseUrl, ALIGNMENT_EMBEDDING_BASE_URL: baseUrl },
    calls,
    /** Questions since the last `behave`, oldest first: not the requests for titles and anchor words. */
    requests,
    anchorRequests,
    close,
    /** The number of answers to questions that are not complete yet, and that the client has not ended. */
    openStreams: () => open.size,
    /** Answers questions so from now on. The title of a chat is always "A scripted title". */
    behave: (next: typeof script) => {
      script = next;
      requests.length = 0;
    },
    /** Answers requests for anchor words so from now on; null proposes none. */
    behaveAnchoring: (next: typeof script | null) => {
      anchorScript = next ?? noWords;
      anchorRequests.length = 0;
    },
    failEmbeddings: (fails: boolean, status = 503) => {
      embeddingScript = fails ? fail({ status }) : null;
    },
    /** Null forwards embeddings to the real model server, which is the default. */
    behaveEmbedding: (next: ScriptedAnswer | null) => {
      embeddingScript = next;
    },
    /** Null is a provider without a reranker, which is the default. */
    behaveReranking: (next: ScriptedAnswer | null) => {
      rerankingScript = next;
    },
    offer: (next: readonly object[]) => {
      models = next;
    },
  };
}

const head = { id: 'chatcmpl-scripted', object: 'chat.completion.chunk', created: 0 };
const tokens = { prompt_tokens: 120, completion_tokens: 7, total_tokens: 127 };
const usage = { ...tokens, prompt_tokens_details: { cached_tokens: 20 } };

async function speak(
  response: ServerResponse,
  { model, stream = false }: ChatRequest,
  { text = '', calls = [], until, everyMs = 0 }: Partial<Spoken>,
): Promise<void> {
  const pieces = typeof text === 'string' ? (text.match(/\s*\S+(\s+$)?/g) ?? []) : text;
  const toolCalls = calls.map(({ name, args }, index) => {
    const written = typeof args === 'string' ? args : JSON.stringify(args);
    return { index, id: `call_${randomUUID()}`, type: 'function', function: { name, arguments: written } };
  });
  const finish_reason = toolCalls.length > 0 ? 'tool_calls' : 'stop';
  if (!stream) {
    await until;
    const called = toolCalls.length > 0 && { tool_calls: toolCalls };
    const message = { role: 'assistant', content: pieces.join(''), ...called };
    const choices = [{ index: 0, message, finish_reason }];
    answerJson(200, { ...head, object: 'chat.completion', model, choices, usage })(response, null as never);
    return;
  }
  sendDelta(openStream(response), model, { content: pieces[0] ?? '' });
  await until;
  for (const content of pieces.slice(1)) {
    if (everyMs > 0) await delay(everyMs);
    sendDelta(response, model, { content });
  }
  for (const call of toolCalls) {
    const { name, arguments: written } = call.function;
    sendDelta(response, model, { tool_calls: [{ ...call, function: { name, arguments: '' } }] });
    for (const piece of written.match(/[\s\S]{1,7}/g) ?? [])
      sendDelta(response, model, { tool_calls: [{ index: call.index, function: { arguments: piece } }] });
  }
  sendDelta(response, model, {}, finish_reason);
  send(response, { model, choices: [], usage });
  response.end('data: [DONE]\n\n');
}

function fail({ status, retryAfterSeconds, code, message = 'as scripted' }: Failure): ScriptedAnswer {
  const headers = retryAfterSeconds === undefined ? undefined : { 'retry-after': String(retryAfterSeconds) };
  return answerJson(status, { error: { message, type: 'scripted', code: code ?? null, param: null } }, headers);
}

function openStream(response: ServerResponse): ServerResponse {
  return response.writeHead(200, { 'content-type': 'text/event-stream' });
}

function sendDelta(response: ServerResponse, model: string, delta: object, finish_reason: string | null = null): void {
  send(response, { model, choices: [{ index: 0, delta, finish_reason }] });
}

function send(response: ServerResponse, chunk: object): void {
  response.write(`data: ${JSON.stringify({ ...head, ...chunk })}\n\n`);
}
