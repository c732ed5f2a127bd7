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

/**
 * What the model does with one request. A text is streamed word by word, a list piece by piece, `everyMs`; `until` holds
 * all but the first back, and an answer as a whole altogether. `raw` is sent as it is, as the body of a stream, which
 * stays open unless it `ends`. `call` says its text and then calls, arguments in pieces of a few characters.
 */
export type Behaviour =
  | { kind: 'answer'; text: string | readonly string[]; until?: Promise<unknown>; everyMs?: number }
  | { kind: 'raw'; body: string; ends: boolean }
  | { kind: 'call'; calls: readonly { name: string; args: unknown }[]; text?: string | readonly string[] }
  | { kind: 'status'; status: number; retryAfterSeconds?: number; code?: string; message?: string }
  | { kind: 'break_off'; text: string };

export type ScriptedModel = Awaited<ReturnType<typeof startScriptedModel>>;

/** Answers as the real model server does. */
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

/** A chat model that does as it is told, behind the real protocol, and remembers what it was asked. */
export async function startScriptedModel() {
  /** `path` without the base. */
  const calls: { path: string; authorization: string | undefined; body: unknown }[] = [];
  const requests: ChatRequest[] = [];
  const anchorRequests: ChatRequest[] = [];
  const rerankRequests: { model?: string; query: string; documents: string[] }[] = [];
  const open = new Set<ServerResponse>();
  const noWords = (_request: ChatRequest): Behaviour => ({ kind: 'answer', text: '{"words": []}' });
  let script = (_request: ChatRequest): Behaviour => ({ kind: 'answer', text: 'A scripted answer.' });
  let anchorScript = noWords;
  let embeddingScript: ScriptedAnswer | null = null;
  let rerankingScript: ScriptedAnswer | null = null;
  let models: readonly object[] = [];

  async function chat(request: ChatRequest, response: ServerResponse): Promise<void> {
    const { model, stream = false } = request;
    const start = request.messages[0]?.content ?? '';
    const answer = (text: string) => sendWhole(response, model, { role: 'assistant', content: text });
    if (start.startsWith('Write a title')) return answer('A scripted title');
    const isForAnchors = start.startsWith('You propose words');
    (isForAnchors ? anchorRequests : requests).push(request);
    const behaviour = (isForAnchors ? anchorScript : script)(request);
    if (!isForAnchors) open.add(response);
    response.once('close', () => open.delete(response));
    switch (behaviour.kind) {
      case 'status':
        return fail(behaviour)(response, null as never);
      case 'break_off':
        openStream(response);
        sendDelta(response, model, { content: behaviour.text });
        // What was written still arrives, and then nothing.
        response.socket?.destroySoon();
        return;
      case 'raw':
        openStream(response).write(behaviour.body);
        if (behaviour.ends) response.end();
        return;
      case 'call':
        return callTools(response, request, behaviour);
      case 'answer':
        if (stream) return answerInPieces(response, model, behaviour);
        await behaviour.until;
        return answer([behaviour.text].flat().join(''));
    }
  }

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { authorization } = request.headers;
    const path = (request.url ?? '').replace(/^\/v1/, '');
    const body = request.method === 'POST' ? await json(request) : null;
    calls.push({ path, authorization, body });
    if (path === '/chat/completions') return chat(body as ChatRequest, response);
    if (path === '/rerank' && rerankingScript !== null) rerankRequests.push(body as never);
    const answers: Record<string, ScriptedAnswer | null> = {
      '/models': answerJson(200, { object: 'list', data: models }),
      '/rerank': rerankingScript,
      '/embeddings': embeddingScript ?? ((reply, sent) => forwardEmbeddings(sent, reply)),
    };
    return (answers[path] ?? fail({ status: 404 }))(response, body as never);
  }

  const { baseUrl, close } = await serveLocally((request, response) => {
    handle(request, response).catch((error: unknown) => response.destroy(error instanceof Error ? error : undefined));
  });

  return {
    /** Ends in /v1. Embeddings are those of the real model server. */
    baseUrl: `${baseUrl}/v1`,
    /** For a stack that uses it. */
    settings: { OPENAI_BASE_URL: `${baseUrl}/v1`, ALIGNMENT_EMBEDDING_BASE_URL: `${baseUrl}/v1` },
    /** Everything that was asked of it, oldest first. */
    calls,
    /** Questions, and not what is asked for titles and anchor words, oldest first. */
    requests,
    ...{ anchorRequests, rerankRequests, close },
    /** Answers to questions that are under way: nobody has stopped them yet. */
    openStreams: () => open.size,
    /** From now on. Requests for a title are not asked for: they get "A scripted title". */
    behave: (next: typeof script) => {
      script = next;
      requests.length = 0;
    },
    /** From now on, where words for anchors are asked for; null proposes none. */
    behaveAnchoring: (next: typeof script | null) => {
      anchorScript = next ?? noWords;
      anchorRequests.length = 0;
    },
    /** From now on, embeddings fail: as if the server were overloaded, unless another status says why. */
    failEmbeddings: (fails: boolean, status = 503) => {
      embeddingScript = fails ? fail({ status }) : null;
    },
    /** From now on; null forwards embeddings to the real model server again. */
    behaveEmbedding: (next: ScriptedAnswer | null) => {
      embeddingScript = next;
    },
    /** From now on; null is a provider without a reranker. */
    behaveReranking: (next: ScriptedAnswer | null) => {
      rerankingScript = next;
      rerankRequests.length = 0;
    },
    /** What its list of models says from now on. */
    offer: (next: readonly object[]) => {
      models = next;
    },
  };
}

const head = { id: 'chatcmpl-scripted', object: 'chat.completion.chunk', created: 0 };
const tokens = { prompt_tokens: 120, completion_tokens: 7, total_tokens: 127 };
const usage = { ...tokens, prompt_tokens_details: { cached_tokens: 20 } };

async function answerInPieces(
  response: ServerResponse,
  model: string,
  { text, until, everyMs = 0 }: Extract<Behaviour, { kind: 'answer' }>,
): Promise<void> {
  openStream(response);
  const [first = '', ...others] = typeof text === 'string' ? (text.match(/\s*\S+/g) ?? []) : text;
  sendDelta(response, model, { content: first });
  await until;
  for (const content of others) {
    if (everyMs > 0) await delay(everyMs);
    sendDelta(response, model, { content });
  }
  endStream(response, model, 'stop');
}

function callTools(
  response: ServerResponse,
  { model, stream = false }: ChatRequest,
  { calls: called, text = '' }: Extract<Behaviour, { kind: 'call' }>,
): void {
  const toolCalls = called.map(({ name, args }, index) => {
    const written = typeof args === 'string' ? args : JSON.stringify(args);
    return { index, id: `call_${randomUUID()}`, type: 'function', function: { name, arguments: written } };
  });
  const pieces = [text].flat();
  const message = { role: 'assistant', content: pieces.join(''), tool_calls: toolCalls };
  if (!stream) {
    sendWhole(response, model, message, 'tool_calls');
    return;
  }
  openStream(response);
  for (const content of pieces) if (content !== '') sendDelta(response, model, { content });
  const sendCall = (piece: object) => sendDelta(response, model, { tool_calls: [piece] });
  for (const call of toolCalls) {
    sendCall({ ...call, function: { name: call.function.name, arguments: '' } });
    for (const piece of call.function.arguments.match(/[\s\S]{1,7}/g) ?? []) {
      sendCall({ index: call.index, function: { arguments: piece } });
    }
  }
  endStream(response, model, 'tool_calls');
}

function sendWhole(response: ServerResponse, model: string, message: object, finish_reason = 'stop'): void {
  const choices = [{ index: 0, message, finish_reason }];
  answerJson(200, { ...head, object: 'chat.completion', model, choices, usage })(response, null as never);
}

type Failure = Omit<Extract<Behaviour, { kind: 'status' }>, 'kind'>;

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

function endStream(response: ServerResponse, model: string, finish_reason: string): void {
  sendDelta(response, model, {}, finish_reason);
  send(response, { model, choices: [], usage });
  response.end('data: [DONE]\n\n');
}

function send(response: ServerResponse, chunk: object): void {
  response.write(`data: ${JSON.stringify({ ...head, ...chunk })}\n\n`);
}
