import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { pdfFile } from './document-fixtures.ts';
import { serveLocally } from './local-server.ts';

/** A PDF of a page for each of the texts, or a status with a text; `hang` answers never. */
type GotenbergAnswer = { pages: string[] } | { status: number; text: string } | 'hang';

export type FakeGotenberg = Awaited<ReturnType<typeof startFakeGotenberg>>;

/** `POST /forms/libreoffice/convert` as Gotenberg takes it: a form with one file, whose name tells its format. */
export async function startFakeGotenberg(first: GotenbergAnswer = { pages: ['One page.'] }) {
  /** The files that it was sent since the last `answer`, oldest first. */
  const files: { name: string; bytes: Buffer }[] = [];
  let answer = first;
  const { baseUrl, close } = await serveLocally(async (request, response) => {
    // Null when the client leaves before it has sent all.
    const body = await buffer(request).catch(() => null);
    if (body === null) return;
    const headers = { 'content-type': request.headers['content-type'] ?? '' };
    if (request.method !== 'POST' || request.url !== '/forms/libreoffice/convert') return response.writeHead(404).end();
    const file = (await new Response(new Uint8Array(body), { headers }).formData()).get('files');
    if (!(file instanceof File)) return response.writeHead(400).end('Invalid form data: no form file found');
    files.push({ name: file.name, bytes: Buffer.from(await file.arrayBuffer()) });
    if (answer === 'hang') return;
    if ('status' in answer) return response.writeHead(answer.status, { 'content-type': 'text/plain' }).end(answer.text);
    response.writeHead(200, { 'content-type': 'application/pdf' });
    response.end(pdfFile(answer.pages.map((text) => [{ text, x: 50, y: 700 }])));
  });
  return {
    url: baseUrl,
    files,
    answer: (next: GotenbergAnswer) => {
      answer = next;
      files.length = 0;
    },
    close,
  };
}

export type FakeClamd = Awaited<ReturnType<typeof startFakeClamd>>;

/**
 * Speaks INSTREAM as clamd does: finds what holds the word, refuses what is longer than its limit before it has all of
 * it, and hangs up after its answer.
 */
export async function startFakeClamd({ limitBytes = 10_000_000 } = {}) {
  const scanned: number[] = [];
  const clamd = { scanned, word: 'EICAR', signature: 'Test.Signature', address: '', close };
  const server = createServer((socket) => {
    serve(socket).catch(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  clamd.address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  return clamd;

  async function close(): Promise<void> {
    server.close();
    await once(server, 'close');
  }

  /** The client sends a command, then the file in parts, each after its length; the length 0 ends the file. */
  async function serve(socket: Socket): Promise<void> {
    const command = 'zINSTREAM\0';
    let received = Buffer.alloc(0);
    for await (const bytes of socket) {
      received = Buffer.concat([received, bytes]);
      const sent = received.toString('latin1', 0, command.length);
      if (!command.startsWith(sent)) return void socket.end('UNKNOWN COMMAND\0');
      let file = Buffer.alloc(0);
      for (let offset = command.length; offset + 4 <= received.length; ) {
        const size = received.readUInt32BE(offset);
        if (size === 0) {
          scanned.push(file.length);
          return void socket.end(file.includes(clamd.word) ? `stream: ${clamd.signature} FOUND\0` : 'stream: OK\0');
        }
        file = Buffer.concat([file, received.subarray(offset + 4, offset + 4 + size)]);
        offset += 4 + size;
      }
      if (file.length > limitBytes) return void socket.end('INSTREAM size limit exceeded. ERROR\0');
    }
  }
}
