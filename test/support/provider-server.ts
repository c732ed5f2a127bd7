import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { serveLocally } from './local-server.ts';

export type ProviderCall = { method: string; url: URL; headers: IncomingMessage['headers']; body: string };
export type ProviderReply = {
  status: number;
  json?: unknown;
  text?: string;
  bytes?: Buffer;
  headers?: Record<string, string>;
};
export type ProviderServer = Awaited<ReturnType<typeof startProviderServer>>;

export async function startProviderServer(answer: (call: ProviderCall) => ProviderReply | Promise<ProviderReply>) {
  const calls: ProviderCall[] = [];
  const failures: (ProviderReply | 'silence')[] = [];
  const holds: { arrived: PromiseWithResolvers<void>; released: PromiseWithResolvers<void> }[] = [];
  const { baseUrl, place, close } = await serveLocally(async (request, response) => {
    const url = new URL(request.url ?? '', 'http://provider');
    const call = { method: request.method ?? '', url, headers: request.headers, body: await text(request) };
    calls.push(call);
    const hold = holds.shift();
    hold?.arrived.resolve();
    await hold?.released.promise;
    const reply = failures.shift() ?? (await answer(call));
    if (reply === 'silence') return;
    const { status, json, headers = {} } = reply;
    const body = json === undefined ? (reply.bytes ?? reply.text ?? '') : JSON.stringify(json);
    response.writeHead(status, { ...(json !== undefined && { 'content-type': 'application/json' }), ...headers });
    response.end(body);
  });
  return {
    ...{ baseUrl, place, close },
    calls,
    /** Answers the next requests with an error, or not at all. */
    failNext: (times: number, how: ProviderReply | 'silence') =>
      void failures.push(...Array<typeof how>(times).fill(how)),
    /** Holds the response to the next request until `release`. */
    holdNext: () => {
      const hold = { arrived: Promise.withResolvers<void>(), released: Promise.withResolvers<void>() };
      holds.push(hold);
      return { arrived: hold.arrived.promise, release: hold.released.resolve };
    },
  };
}
