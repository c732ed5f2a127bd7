import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { connect, type Socket } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { z } from 'zod';
import { appError, fieldError } from '#src/errors.ts';
import { readJsonBody } from '#src/http/request/body.ts';
import { integerField } from '#src/http/request/fields.ts';
import { receiveForm } from '#src/http/request/upload.ts';
import { createdAnswer, noContentAnswer } from '#src/http/response/answers.ts';
import { defineRoute, type IncomingUploadFile, multipartBody } from '#src/http/routing/route.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { serveLocally } from '#test/support/local-server.ts';
import { done, routeAt, type ServedRoutes, serveRoutes } from '#test/support/served-routes.ts';
import { until } from '#test/support/until.ts';

const formType = 'multipart/form-data; boundary=b';
const headOf = (name: string, fileName?: string) =>
  `--b\r\nContent-Disposition: form-data; name="${name}"${fileName ? `; filename="${fileName}"` : ''}\r\n\r\n`;

describe('uploads', () => {
  let served: ServedRoutes;
  const stored = new Map<string, Buffer>();
  let storeFailed: PromiseWithResolvers<void>;
  let begun: number;

  async function store({ fileName, content }: IncomingUploadFile) {
    begun += 1;
    if (fileName === 'refused.txt') throw appError('payload_too_large');
    const bytes = await buffer(content).catch((error: unknown) => {
      storeFailed.resolve();
      throw error;
    });
    const blobKey = `blob-${stored.size}`;
    stored.set(blobKey, bytes);
    return { blobKey, fileName, sizeBytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
  }

  const upload = defineRoute({
    ...routeAt('post', '/uploads'),
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
    served = await serveRoutes([upload], { maxRestBytes: 10_000_000 });
  });
  after(() => served.close());
  beforeEach(() => {
    begun = 0;
    stored.clear();
    storeFailed = Promise.withResolvers();
  });

  const post = (body: string, contentType = formType) =>
    fetch(`${served.baseUrl}/uploads`, { method: 'POST', body, headers: { 'content-type': contentType } });
  const part = (name: string, content: string, fileName?: string) => `${headOf(name, fileName)}${content}\r\n`;
  const name = part('name', 'a');
  const file = part('file', 'some bytes', 'f');
  const formOf = (...parts: string[]) => `${parts.join('')}--b--\r\n`;

  it('accept fields before and after the file, and treat an empty file as missing', async () => {
    const large = part('file', 'x'.repeat(300_000), 'größe.txt');
    const response = await post(formOf(name, large, part('pages', '7')));
    expect(response.status).equal(201);
    expect(await response.json()).deep.equal({ name: 'a', pages: 7, file: 'größe.txt', size: 300_000 });
    expect(stored.size).equal(1);
    const empty = await post(formOf(name, part('pages', ''), file));
    expect(await empty.json()).deep.equal({ name: 'a', file: 'f', size: 10 });
  });

  it('store nothing of a form that is rejected', async () => {
    const refused: Record<string, [status: number, form: string, contentType?: string]> = {
      'a form without a file': [422, formOf(name)],
      'a file that is a plain field': [422, formOf(name, part('file', 'text'))],
      'a wrong field after the file': [422, formOf(file, part('name', 'too long'))],
      'an unknown field': [422, formOf(name, part('x', '1'), file)],
      'a file of another name': [422, formOf(name, part('picture', 'x', 'f'), file)],
      'two files': [422, formOf(name, file, file)],
      'text that cannot be stored': [422, formOf(part('name', 'a\0'), file)],
      'a form that the handler refuses': [422, formOf(part('name', 'no'), file)],
      'a form whose handler fails': [500, formOf(part('name', 'crash'), file)],
      'a file that the store refuses': [413, formOf(name, part('file', 'x'.repeat(3_000_000), 'refused.txt'))],
      'another media type': [415, '{}', 'application/json'],
      'a form without a boundary': [400, formOf(name, file), 'multipart/form-data; x=y'],
      'no form': [400, 'x'],
    };
    for (const [what, [status, ...sent]] of Object.entries(refused)) {
      expect((await post(...sent)).status, what).equal(status);
      expect(stored.size, what).equal(0);
    }
  });

  /** Sends the beginning of a form whose rest never ends. */
  function sendEndless(beginning: string, endless = ''): Socket {
    const socket = connect(Number(new URL(served.baseUrl).port), '127.0.0.1').on('error', () => {});
    socket.write(`POST /uploads HTTP/1.1\r\nHost: x\r\nContent-Type: ${formType}\r\n`);
    socket.write(`Content-Length: 1000000000\r\n\r\n${beginning}`);
    const piece = endless.repeat(50_000 / (endless.length || 1));
    const goOn = () => {
      while (piece !== '' && !socket.destroyed && socket.write(piece));
    };
    socket.on('drain', goOn);
    goOn();
    return socket;
  }

  it('can be rejected while they are still being sent, and then store nothing', async () => {
    const refused: Record<string, [status: number, beginning: string, endless?: string]> = {
      'a file that the store refuses': [413, part('file', 'some bytes', 'refused.txt')],
      'a file of another name': [422, part('picture', 'some bytes', 'f')],
      'a second file': [422, file + file],
      'a file behind a refused one': [422, part('picture', '', 'f') + file],
      'a field without an end': [413, file + part('name', ''), 'x'],
      'fields without an end': [413, file, name],
      'text without an end before the first part': [413, '', 'x'],
      'text without an end behind the last part': [413, `${file}--b--`, 'x'],
      'a damaged part': [400, `${file}--b\r\ndamaged\r\n\r\n`],
    };
    for (const [what, [status, ...sent]] of Object.entries(refused)) {
      const socket = sendEndless(...sent);
      const [answer] = (await once(socket, 'data')) as [Buffer];
      socket.destroy();
      expect(answer.toString(), what).match(new RegExp(`^HTTP/1.1 ${status} `));
      expect(stored.size, what).equal(0);
    }
  });

  it('disconnect a client that keeps sending long after the rejection', async () => {
    const socket = sendEndless(part('picture', '', 'f'), 'x');
    socket.resume();
    await new Promise((resolve) => socket.once('close', resolve));
    expect(socket.bytesWritten).within(10_000_000, 100_000_000);
  });

  it('get a 408 response and are disconnected if they arrive too slowly', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const answer = text(sendEndless(file));
    while ((await Promise.race([answer, setImmediate('pending')])) === 'pending') mock.timers.tick(60_000);
    mock.timers.reset();
    expect(await answer).match(/^HTTP\/1.1 408 [\s\S]*request_timeout/);
    expect(stored.size).equal(0);
  });

  it('end the write to the store with an error when the client disconnects within the file', async () => {
    const socket = sendEndless(file);
    socket.write('more', () => socket.destroy());
    await storeFailed.promise;
    expect(stored.size).equal(0);
  });

  describe('of one user at the same time', () => {
    const fetching = Promise.withResolvers<void>();
    const ofJson = { access: 'user', body: z.looseObject({}), responses: done } as const;
    const others = [
      defineRoute({
        ...routeAt('post', '/large-json'),
        ...ofJson,
        bodyLimitBytes: 8_000_000,
        handle: () => noContentAnswer(),
      }),
      defineRoute({
        ...routeAt('post', '/fetched'),
        ...ofJson,
        fetchesFile: true,
        handle: async () => {
          begun += 1;
          await fetching.promise;
          return noContentAnswer();
        },
      }),
    ];
    before(async () => {
      await served.close();
      served = await serveRoutes([upload, ...others], { uploadLimit: { perUser: 2, perOrganization: 9 } });
    });

    it('get 429 above a limit that also counts large JSON bodies and files that the service downloads', async () => {
      const json = { method: 'POST', body: '{}', headers: { 'content-type': 'application/json' } };
      const ask = (path: string) =>
        path === '/uploads' ? post(formOf(name, file)) : fetch(served.baseUrl + path, json);
      const paths = ['/uploads', '/large-json', '/fetched'];
      const sockets = [sendEndless(file), sendEndless(file)];
      await until('both uploads have begun', async () => begun === 2);
      for (const path of paths) {
        const { status, headers } = await ask(path);
        expect([status, headers.get('retry-after')], path).deep.equal([429, '5']);
      }
      for (const socket of sockets) socket.destroy();
      await until('the disconnected clients have released their slots', async () =>
        (await Promise.all([ask('/uploads'), ask('/uploads')])).every(({ ok }) => ok),
      );
      begun = 0;
      const fetches = [ask('/fetched'), ask('/fetched')];
      await until('both fetches have begun', async () => begun === 2);
      expect((await ask('/uploads')).status).equal(429);
      fetching.resolve();
      for (const answer of fetches) expect((await answer).ok).equal(true);
      for (const path of paths) expect((await ask(path)).ok, path).equal(true);
    });
  });
});

describe('a slow request body', () => {
  const head = headOf('file', 'f');
  const end = '\r\n--b--\r\n';
  const pace = { windowMs: 60_000, windowBytes: 1_000 };
  const discard = () => Promise.reject(new Error('No file was stored.'));
  let local: Awaited<ReturnType<typeof serveLocally>>;
  let client: Socket;
  afterEach(() => {
    mock.timers.reset();
    client.destroy();
    return local.close();
  });

  /** Sends the beginning of a request; resolves with the request as the server received it. */
  async function begin(contentType: string, body: string, contentLength = 100_000): Promise<IncomingMessage> {
    local = await serveLocally();
    client = connect(Number(new URL(local.baseUrl).port), '127.0.0.1').on('error', () => {});
    const requestHead = `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${contentType}\r\nContent-Length: ${contentLength}`;
    client.write(`${requestHead}\r\n\r\n${body}`);
    return (await once(local.server, 'request'))[0];
  }

  for (const [limitBytes, seconds] of Object.entries({ 1000: 30, 10485760: 300 })) {
    it(`is rejected after ${seconds} seconds where a route allows JSON of at most ${limitBytes} bytes`, async () => {
      const req = await begin('application/json', '{"name": "', 999);
      mock.timers.enable({ apis: ['setTimeout'] });
      const received = appErrorCode(readJsonBody(req, Number(limitBytes)));
      mock.timers.tick(seconds * 1_000 - 1);
      expect(await Promise.race([received, setImmediate('pending')])).equal('pending');
      mock.timers.tick(1);
      expect(await received).equal('request_timeout');
    });
  }

  it('is accepted if the store is slow, not the client', async () => {
    const req = await begin(formType, head, 2_000_000);
    const windows = Promise.withResolvers<void>();
    const store = () => windows.promise.then(() => Promise.reject(appError('storage_quota_exceeded')));
    client.write('x'.repeat(1_000_000));
    mock.timers.enable({ apis: ['setInterval'] });
    const received = appErrorCode(receiveForm(req, { store, discard }, { ...pace, windowBytes: 1_000_000 }));
    await until('the client is held up', async () => req.readableFlowing === false);
    mock.timers.tick(10 * pace.windowMs);
    windows.resolve();
    expect(await received).equal('storage_quota_exceeded');
  });

  it('is accepted, however long it takes, if it is a form that arrives slowly but steadily', async () => {
    const req = await begin(formType, head);
    let storedBytes = 0;
    const store = async ({ content }: { content: AsyncIterable<Buffer> }) => {
      for await (const piece of content) storedBytes += piece.length;
      return storedBytes;
    };
    mock.timers.enable({ apis: ['setInterval'] });
    const received = receiveForm(req, { store, discard }, pace);
    for (let minute = 1; minute <= 10; minute += 1) {
      client.write('x'.repeat(1_000));
      await until('the minute has arrived', async () => storedBytes >= minute * 1_000 - head.length);
      mock.timers.tick(pace.windowMs);
    }
    client.write(`${'x'.repeat(100_000 - 10_000 - head.length - end.length)}${end}`);
    expect((await received).file).equal(100_000 - head.length - end.length);
  });

  for (const name of ['file', 'evil']) {
    it(`fails with an error, not a crash, if its client disconnects in the middle of a file, here the field "${name}"`, async () => {
      const req = await begin(formType, `${headOf(name, 'f')}abc`);
      const gone = new Promise((resolve) => req.once('close', resolve));
      const refusal = appErrorCode(receiveForm(req, null));
      client.destroy();
      expect(await refusal).a('string');
      await gone;
    });
  }
});
