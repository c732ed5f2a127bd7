import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { keepAliveTimeout } from './keep-alive.ts';

export type Page = (response: ServerResponse, request: IncomingMessage) => void;

export type WebSite = {
  /** As it stands in EGRESS_ALLOW. */
  place: string;
  /** The address of a new page that answers so. */
  page(answer: Page, path?: string): string;
  /** Of all requests so far, oldest first. */
  requests: { path: string; headers: IncomingHttpHeaders }[];
  close(): Promise<void>;
};

/** A site on this machine whose pages say whatever a test wants them to say. */
export async function startWebSite(): Promise<WebSite> {
  const pages = new Map<string, Page>();
  const requests: WebSite['requests'] = [];
  const server = createServer({ keepAliveTimeout }, (request, response) => {
    const path = request.url ?? '';
    requests.push({ path, headers: request.headers });
    const answer = pages.get(path.split('?', 1)[0] ?? '') ?? ((refused) => refused.writeHead(404).end('Not here.'));
    answer(response, request);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const place = `127.0.0.1:${(server.address() as AddressInfo).port}`;

  return {
    place,
    page: (answer, path = `/page-${pages.size + 1}`) => {
      pages.set(path.split('?', 1)[0] ?? '', answer);
      return `http://${place}${path}`;
    },
    requests,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

export const answerWith =
  (content: string | Uint8Array, headers: Record<string, string> = {}, status = 200): Page =>
  (response) =>
    response.writeHead(status, { 'content-type': 'text/html; charset=utf-8', ...headers }).end(content);

export const redirectTo =
  (location: string, status = 302): Page =>
  (response) =>
    response.writeHead(status, { location: Buffer.from(location).toString('latin1') }).end();
