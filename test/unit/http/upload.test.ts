import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { expect } from 'chai';
import { z } from 'zod';
import type { StoredUpload } from '#src/contracts/request-data.ts';
import { appError, fieldError } from '#src/errors.ts';
import { integerField } from '#src/http/request/fields.ts';
import { createdAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type IncomingUploadFile, multipartBody } from '#src/http/routing/route.ts';
import { type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';

describe('uploads', () => {
  let served: ServedRoutes;
  const stored = new Map<string, Buffer>();
  let onStoreFailed = () => {};

  async function store(upload: IncomingUploadFile): Promise<StoredUpload> {
    if (upload.fileName === 'refused.txt') throw appError('payload_too_large');
    const content = await buffer(upload.content).catch((error: unknown) => {
      onStoreFailed();
      throw error;
    });
    const blobKey = `blob-${stored.size}`;
    stored.set(blobKey, content);
    const sha256 = createHash('sha256').update(content).digest('hex');
    const { fileName, mediaType } = upload;
    return { blobKey, claimId: blobKey, fileName, mediaType, sizeBytes: content.length, sha256 };
  }

  const upload = defineRoute({
    method: 'post',
    path: '/uploads',
    operationId: 'upload',
    tag: 'uploads',
    summary: 'A form of the tests',
    access: 'user',
    body: multipartBody({
      fields: z.strictObject({ name: z.string().max(5), pages: integerField({ min: 1, max: 9 }).optional() }),
      store: (_actor, file) => store(file),
      discard: async ({ blobKey }) => void stored.delete(blobKey),
    }),
    responses: { 201: { description: 'Stored', schema: z.looseObject({ name: z.string() }) } },
    handle: ({ body }) => {
      if (body.name === 'no') throw fieldError('name', 'Not this one');
      if (body.name === 'crash') throw new Error('after a commit, perhaps');
      return createdAnswer({ name: body.name, pages: body.pages, file: body.file.fileName, size: body.file.sizeBytes });
    },
  });

  before(async () => {
    const actor = { userId: 'u', orgId: 'o', isOrgAdmin: false, teamIds: [], teamAdminOf: [], openTeamIds: [] };
    served = await serveRoutes([upload], {
      authenticate: async () => ({ actor, sessionId: 's', actorNow: async () => actor }),
      maxRestBytes: 10_000_000,
    });
  });
  after(() => served.close());
  beforeEach(() => stored.clear());

  const post = (form: FormData) => fetch(`${served.baseUrl}/uploads`, { method: 'POST', body: form });
  const bytes = (size: number) => new Blob([Buffer.alloc(size, 'x')], { type: 'text/plain' });

  function formOf(...parts: [string, string | Blob, string?][]): FormData {
    const form = new FormData();
    for (const [name, value, fileName] of parts) {
      if (typeof value === 'string') form.append(name, value);
      else form.append(name, value, fileName);
    }
    return form;
  }

  it('accept fields before and after the file', async () => {
    const response = await post(formOf(['name', 'a'], ['file', bytes(300_000), 'größe.txt'], ['pages', '7']));
    expect(response.status).to.equal(201);
    expect(await response.json()).to.deep.equal({ name: 'a', pages: 7, file: 'größe.txt', size: 300_000 });
    expect(stored.size).to.equal(1);
  });

  it('treat an empty field as missing', async () => {
    const response = await post(formOf(['name', 'a'], ['pages', ''], ['file', bytes(1), 'f']));
    expect(await response.json()).to.deep.equal({ name: 'a', file: 'f', size: 1 });
  });

  const refused: [string, FormData, number][] = [
    ['a form without a file', formOf(['name', 'a']), 422],
    ['a file that is a plain field', formOf(['name', 'a'], ['file', 'text']), 422],
    ['a wrong field after the file', formOf(['file', bytes(10), 'f'], ['name', 'too long']), 422],
    ['an unknown field', formOf(['name', 'a'], ['x', '1'], ['file', bytes(10), 'f']), 422],
    ['a file of another name', formOf(['name', 'a'], ['picture', bytes(10), 'f'], ['file', bytes(10), 'f']), 422],
    ['two files', formOf(['name', 'a'], ['file', bytes(10), 'f'], ['file', bytes(10), 'g']), 422],
    ['text that cannot be stored', formOf(['name', 'a\0'], ['file', bytes(10), 'f']), 422],
    ['what the handler refuses', formOf(['name', 'no'], ['file', bytes(10), 'f']), 422],
    ['what ends in a failure', formOf(['name', 'crash'], ['file', bytes(10), 'f']), 500],
    ['what the store refuses, read to its end', formOf(['name', 'a'], ['file', bytes(3_000_000), 'refused.txt']), 413],
  ];
  for (const [what, form, status] of refused) {
    it(`reject ${what} and store nothing`, async () => {
      expect((await post(form)).status).to.equal(status);
      expect(stored.size).to.equal(0);
    });
  }

  it('require a form with a boundary', async () => {
    const send = (type: string) =>
      fetch(`${served.baseUrl}/uploads`, { method: 'POST', headers: { 'content-type': type }, body: 'x' });
    expect((await send('application/json')).status).to.equal(415);
    expect((await send('multipart/form-data; x=y')).status).to.equal(400);
    expect((await send('multipart/form-data; boundary=b')).status).to.equal(400);
  });

  const head = (name: string, fileName?: string) =>
    `--b\r\nContent-Disposition: form-data; name="${name}"${fileName ? `; filename="${fileName}"` : ''}\r\n\r\n`;

  /** Sends the beginning of a form whose rest never ends. */
  function sendEndless(beginning: string, endless: string): Socket {
    const { hostname, port } = new URL(served.baseUrl);
    const socket = connect(Number(port), hostname).on('error', () => {});
    socket.write('POST /uploads HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n');
    socket.write(`Content-Length: 1000000000\r\n\r\n${beginning}`);
    const piece = endless.repeat(50_000 / (endless.length || 1));
    const goOn = () => {
      while (piece !== '' && !socket.destroyed && socket.write(piece));
    };
    socket.on('drain', goOn);
    goOn();
    return socket;
  }

  const whole = `${head('file', 'f')}some bytes\r\n`;
  const refusedAtOnce: [string, string, string, string][] = [
    ['a file that the store refuses', `${head('file', 'refused.txt')}some bytes`, '', '413'],
    ['a file of another name', `${head('picture', 'f')}some bytes`, '', '422'],
    ['a second file', `${whole}${head('file', 'g')}some bytes`, '', '422'],
    ['a file behind a refused one', `${head('picture', 'f')}\r\n${whole}`, '', '422'],
    ['a field without an end', `${whole}${head('name')}`, 'x', '413'],
    ['fields without an end', whole, `${head('name')}a\r\n`, '413'],
    ['text without an end before the first part', '', 'x', '413'],
    ['text without an end behind the last part', `${whole}--b--`, 'x', '413'],
    ['a damaged part', `${whole}--b\r\ndamaged\r\n\r\n`, '', '400'],
  ];
  for (const [what, beginning, endless, status] of refusedAtOnce) {
    it(`reject ${what} while it is still being sent, and store nothing`, async () => {
      const socket = sendEndless(beginning, endless);
      const [answer] = (await once(socket, 'data')) as [Buffer];
      socket.destroy();
      expect(answer.toString()).match(new RegExp(`^HTTP/1.1 ${status} `));
      expect(stored.size).to.equal(0);
    });
  }

  it('disconnect a client that keeps sending long after the rejection', async () => {
    const socket = sendEndless(head('picture', 'f'), 'x');
    socket.resume();
    await new Promise((resolve) => socket.once('close', resolve));
    expect(socket.bytesWritten).to.be.within(10_000_000, 100_000_000);
  });

  it('fail the store when the client disconnects within the file', async () => {
    const failed = new Promise<void>((resolve) => {
      onStoreFailed = resolve;
    });
    const { hostname, port } = new URL(served.baseUrl);
    const socket = connect(Number(port), hostname);
    socket.write('POST /uploads HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=b\r\n');
    socket.write(`Content-Length: 100000\r\n\r\n${head('file', 'f')}some bytes`, () => socket.destroy());
    await failed;
    expect(stored.size).to.equal(0);
  });
});
