import type { ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { serveLocally } from './local-server.ts';

export type ScriptedAnswer = (response: ServerResponse, body: never) => void;
export type ScriptedServer = Awaited<ReturnType<typeof startScriptedServer>>;

/** A service that says whatever a test wants it to say. */
export async function startScriptedServer() {
  const calls: { path: string; body: unknown; atMs: number }[] = [];
  let script: ScriptedAnswer = (response) => response.writeHead(404).end();
  const { baseUrl, close } = await serveLocally(async (request, response) => {
    const body: unknown = JSON.parse((await text(request)) || 'null');
    calls.push({ path: request.url ?? '', body, atMs: performance.now() });
    script(response, body as never);
  });
  return {
    baseUrl: `${baseUrl}/v1`,
    calls,
    answer: (next: ScriptedAnswer) => {
      script = next;
      calls.length = 0;
    },
    close,
  };
}

export const answerJson =
  (status: number, body: unknown, headers: Record<string, string> = {}): ScriptedAnswer =>
  (response) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body));

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
