import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { keepAliveTimeout } from './keep-alive.ts';

export type ScriptedCall = { path: string; body: unknown; atMs: number };
export type ScriptedAnswer = (response: ServerResponse, body: never) => void;

export type ScriptedServer = {
  baseUrl: string;
  /** Oldest first, since the last `answer`. */
  calls: ScriptedCall[];
  /** From now on, every request is answered so. */
  answer(script: ScriptedAnswer): void;
  close(): Promise<void>;
};

/** A service that says whatever a test wants it to say. */
export async function startScriptedServer(): Promise<ScriptedServer> {
  const calls: ScriptedCall[] = [];
  let script: ScriptedAnswer = (response) => response.writeHead(404).end();
  const server = createServer({ keepAliveTimeout }, async (request, response) => {
    const body: unknown = JSON.parse((await text(request)) || 'null');
    calls.push({ path: request.url ?? '', body, atMs: performance.now() });
    script(response, body as never);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');

  return {
    baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    calls,
    answer: (next) => {
      script = next;
      calls.length = 0;
    },
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

export const answerJson =
  (status: number, body: unknown, headers: Record<string, string> = {}): ScriptedAnswer =>
  (response) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));

/** An error in OpenAI's shape. */
export const answerError = (status: number, message: string, headers: Record<string, string> = {}): ScriptedAnswer =>
  answerJson(status, { error: { message, type: 'scripted', param: null, code: null } }, headers);

/** Answers `POST /embeddings` with a vector for each text. */
export const answerEmbeddings =
  (embed: (text: string) => unknown, model?: string): ScriptedAnswer =>
  (response, body: { input: string[] }) => {
    const data = body.input.map((input, index) => ({ object: 'embedding', index, embedding: embed(input) }));
    // In another order than asked for: only the index says which is whose.
    const answer = { object: 'list', data: data.reverse(), ...(model !== undefined && { model }) };
    answerJson(200, answer)(response, body as never);
  };
