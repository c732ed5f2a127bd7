import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import type { Endpoint } from './endpoint.ts';
import { chatCompletions } from './endpoints/chat-completions.ts';
import { embeddings } from './endpoints/embeddings.ts';
import { models } from './endpoints/models.ts';
import { rerank } from './endpoints/rerank.ts';
import { OpenAiError, toOpenAiError } from './openai-error.ts';
import { createServedModels, type ServedModelsSettings } from './served-models.ts';

export type ModelServerSettings = ServedModelsSettings & {
  /** Usually a loopback address, because the server has no authentication. */
  host: string;
  port: number;
};

export type ModelServer = {
  /** URL without a trailing slash; an OpenAI client's base URL is `${url}/v1`. */
  url: string;
  close(): Promise<void>;
};

const endpoints: Record<string, Endpoint> = {
  'GET /health': async () => ({ status: 'ok' }),
  'GET /v1/models': models,
  'POST /v1/embeddings': embeddings,
  'POST /v1/chat/completions': chatCompletions,
  'POST /v1/rerank': rerank,
};

/** How long `close` waits for running requests; the supervisor stops all processes within about 2 s. */
const CLOSE_GRACE_MS = 1_000;

/** Longer than clients keep idle connections, so that a request never meets a connection that is being closed. */
const KEEP_ALIVE_MS = 75_000;

/** Starts the server. `/health` answers at once while the models load. Rejects if the port is taken. */
export async function startModelServer(settings: ModelServerSettings): Promise<ModelServer> {
  const { host, port, log } = settings;
  const served = createServedModels(settings);

  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, async (request, response) => {
    const startedAt = performance.now();
    const route = `${request.method} ${request.url?.split('?')[0]}`;
    const gone = new AbortController();
    response.on('close', () => {
      gone.abort();
      const durationMs = Math.round(performance.now() - startedAt);
      // Health checks come every few seconds and would flood the log.
      const level = route === 'GET /health' ? 'debug' : 'info';
      log[level]({ route, status: response.statusCode, complete: response.writableFinished, durationMs }, 'request');
    });
    try {
      const endpoint = endpoints[route];
      if (!endpoint) throw new OpenAiError(404, `The model server has no endpoint ${route}.`, { code: 'unknown_url' });
      const body = await endpoint({ request, response, models: served, signal: gone.signal });
      if (body) sendJson(response, 200, body);
    } catch (error) {
      sendError(response, error, log);
    }
  });

  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    await served.close();
    throw error;
  }
  const address = server.address();
  const boundPort = typeof address === 'object' ? address?.port : port;

  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${boundPort}`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      const deadline = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
      await closed;
      clearTimeout(deadline);
      await served.close();
    },
  };
}

function sendJson(response: ServerResponse, status: number, body: object, headers: Record<string, string> = {}): void {
  response.writeHead(status, { ...headers, 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function sendError(response: ServerResponse, error: unknown, log: Logger): void {
  if (response.destroyed) return;
  if (!(error instanceof OpenAiError)) log.error({ err: error }, 'request failed');
  if (response.headersSent) return;
  const answer = toOpenAiError(error);
  const wait = answer.retryAfterSeconds;
  sendJson(response, answer.status, answer.toBody(), wait === null ? {} : { 'retry-after': String(wait) });
}
