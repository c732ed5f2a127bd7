import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { keepAliveTimeout } from './keep-alive.ts';

export type ProviderCall = { method: string; url: URL; headers: IncomingMessage['headers']; body: string };
export type ProviderReply = {
  status: number;
  json?: unknown;
  text?: string;
  bytes?: Buffer;
  headers?: Record<string, string>;
};

/** A fake server of a provider. */
export type ProviderServer = {
  baseUrl: string;
  /** Host and port, for `EGRESS_ALLOW`. */
  place: string;
  /** All requests so far, oldest first. */
  calls: ProviderCall[];
  /** Answers the next requests with an error, or not at all. */
  failNext(times: number, how: ProviderReply | 'silence'): void;
  /** Holds the response to the next request until `release`. */
  holdNext(): { arrived: Promise<void>; release(): void };
  close(): Promise<void>;
};

export async function startProviderServer(
  answer: (call: ProviderCall) => ProviderReply | Promise<ProviderReply>,
): Promise<ProviderServer> {
  const calls: ProviderCall[] = [];
  const failures: (ProviderReply | 'silence')[] = [];
  const holds: { arrived: PromiseWithResolvers<void>; released: PromiseWithResolvers<void> }[] = [];
  const server = createServer({ keepAliveTimeout }, async (request, response) => {
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
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const place = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    baseUrl: `http://${place}`,
    place,
    calls,
    failNext: (times, how) => {
      for (let time = 0; time < times; time += 1) failures.push(how);
    },
    holdNext: () => {
      const hold = { arrived: Promise.withResolvers<void>(), released: Promise.withResolvers<void>() };
      holds.push(hold);
      return { arrived: hold.arrived.promise, release: hold.released.resolve };
    },
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
