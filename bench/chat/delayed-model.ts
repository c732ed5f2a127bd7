import type { IncomingMessage, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { serveLocally } from '../local-server.ts';

export const firstTokenMs = 100;

export const chatModel = 'delayed-1';
export const embeddingModel = 'all-minilm-l6-v2-int8-r2';

export type DelayedModel = {
  /** Base URL of the fake provider, ending in /v1. */
  baseUrl: string;
  embedAt(baseUrl: string): void;
  /** Keeps all answers that begin from now on open until the returned function is called. */
  hold(): () => void;
  close(): Promise<void>;
};

/** Starts a fake provider whose chat model takes the same time for every first token. */
export async function startDelayedModel(): Promise<DelayedModel> {
  let embeddingsUrl = '';
  let held = Promise.resolve();

  async function embed(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = await fetch(`${embeddingsUrl}/embeddings`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(await json(request)),
    });
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
  }

  async function chat(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { stream } = (await json(request)) as { stream?: boolean };
    const content = 'A loan is repaid month by month.';
    if (!stream) {
      const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason: 'stop' }];
      return sendJson(response, { object: 'chat.completion', model: chatModel, choices });
    }
    const send = (delta: object, finish_reason: string | null) =>
      response.write(
        `data: ${JSON.stringify({ model: chatModel, choices: [{ index: 0, delta, finish_reason }] })}\n\n`,
      );
    const released = held;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    await delay(firstTokenMs);
    send({ content: content.slice(0, 6) }, null);
    await released;
    send({ content: content.slice(6) }, 'stop');
    response.end('data: [DONE]\n\n');
  }

  const { address, close } = await serveLocally((request, response) => {
    const listed = [chatModel, embeddingModel].map((id) => ({ id, object: 'model' }));
    const handle = async () => {
      if (request.url === '/v1/models') return sendJson(response, { object: 'list', data: listed });
      return request.url === '/v1/embeddings' ? embed(request, response) : chat(request, response);
    };
    handle().catch(() => response.destroy());
  });

  return {
    baseUrl: `http://${address}/v1`,
    embedAt: (baseUrl) => {
      embeddingsUrl = baseUrl;
    },
    hold: () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      held = promise;
      return resolve;
    },
    close,
  };
}

function sendJson(response: ServerResponse, body: object): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
