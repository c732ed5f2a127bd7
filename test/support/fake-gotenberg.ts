import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { pdfFile } from './document-fixtures.ts';
import { keepAliveTimeout } from './local-server.ts';

/** Answers with a PDF of a page for each of the texts, or with a status and words; never, where it hangs. */
type GotenbergAnswer = { pages: string[] } | { status: number; text: string } | 'hang';

export type FakeGotenberg = Awaited<ReturnType<typeof startFakeGotenberg>>;

/** `POST /forms/libreoffice/convert` as Gotenberg takes it: a form with one file, whose name tells its format. */
export async function startFakeGotenberg(first: GotenbergAnswer = { pages: ['One page.'] }) {
  /** What it was sent, oldest first. */
  const files: { name: string; bytes: Buffer }[] = [];
  let answer = first;
  const server = createServer({ keepAliveTimeout }, async (request, response) => {
    // Null when the client leaves before it has sent all.
    const body = await buffer(request).catch(() => null);
    if (body === null) return;
    const headers = { 'content-type': request.headers['content-type'] ?? '' };
    if (request.method !== 'POST' || request.url !== '/forms/libreoffice/convert') return response.writeHead(404).end();
    const form = await new Response(new Uint8Array(body), { headers }).formData();
    const file = form.get('files');
    if (!(file instanceof File)) return response.writeHead(400).end('Invalid form data: no form file found');
    files.push({ name: file.name, bytes: Buffer.from(await file.arrayBuffer()) });
    if (answer === 'hang') return;
    if ('status' in answer) return response.writeHead(answer.status, { 'content-type': 'text/plain' }).end(answer.text);
    response.writeHead(200, { 'content-type': 'application/pdf' });
    response.end(pdfFile(answer.pages.map((text) => [{ text, x: 50, y: 700 }])));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    files,
    answer: (next: GotenbergAnswer) => {
      answer = next;
      files.length = 0;
    },
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
