import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { serveLocally } from './local-server.ts';

type Page = (response: ServerResponse, request: IncomingMessage) => void;
export type WebSite = Awaited<ReturnType<typeof startWebSite>>;

/** A site on this machine whose pages say whatever a test wants them to say. */
export async function startWebSite() {
  const pages = new Map<string, Page>();
  const requests: { path: string; headers: IncomingHttpHeaders }[] = [];
  const { place, close } = await serveLocally((request, response) => {
    const path = request.url ?? '';
    requests.push({ path, headers: request.headers });
    const answer = pages.get(path.split('?', 1)[0] ?? '') ?? ((refused) => refused.writeHead(404).end('Not here.'));
    answer(response, request);
  });
  return {
    ...{ place, close },
    /** The address of a new page that answers so. */
    page: (answer: Page, path = `/page-${pages.size + 1}`) => {
      pages.set(path.split('?', 1)[0] ?? '', answer);
      return `http://${place}${path}`;
    },
    requests,
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
