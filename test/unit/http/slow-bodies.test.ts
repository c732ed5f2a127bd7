import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { z } from 'zod';
import { appError } from '#src/errors.ts';
import { readJsonBody } from '#src/http/request/body.ts';
import { receiveForm } from '#src/http/request/upload.ts';
import { noContentAnswer } from '#src/http/response/answers.ts';
import { defineRoute } from '#src/http/routing/route.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { serveRoutes } from '#test/support/served-routes.ts';
import { until } from '#test/support/until.ts';

const pace = { windowMs: 60_000, windowBytes: 1_000 };

const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n';
const reading = {
  store: async ({ content }: { content: AsyncIterable<unknown> }) => {
    for await (const _ of content);
    throw new Error('it did not end');
  },
  discard: () => Promise.reject(new Error('there is nothing')),
};

describe('a slow body', () => {
  let server: Server;
  let client: Socket;
  afterEach(() => {
    mock.timers.reset();
    client.destroy();
    server.close();
  });

  /** Sends the beginning of a request; resolves with the request as the server received it. */
  async function begin(contentType: string, body: string, contentLength = 100_000): Promise<IncomingMessage> {
    server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
    client.write(
      `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${contentType}\r\nContent-Length: ${contentLength}\r\n\r\n${body}`,
    );
    const [req]: [IncomingMessage] = (await once(server, 'request')) as [IncomingMessage];
    return req;
  }

  const MiB = 1024 ** 2;
  for (const { limitBytes, seconds } of [
    { limitBytes: 1_000, seconds: 30 },
    { limitBytes: 10 * MiB, seconds: 300 },
  ]) {
    it(`is rejected after ${seconds} seconds if it is JSON of at most ${limitBytes} bytes`, async () => {
      const req = await begin('application/json', '{"name": "', 999);
      mock.timers.enable({ apis: ['setTimeout'] });
      let code: unknown;
      const received = appErrorCode(readJsonBody(req, limitBytes)).then((refusal) => {
        code = refusal;
      });
      mock.timers.tick(seconds * 1_000 - 1);
      await setImmediate();
      expect(code).equal(undefined);
      mock.timers.tick(1);
      await received;
      expect(code).equal('request_timeout');
    });
  }

  it('is rejected if it is a form below the minimum rate; its file is discarded', async () => {
    const req = await begin('multipart/form-data; boundary=b', part);
    mock.timers.enable({ apis: ['setInterval'] });
    const received = appErrorCode(receiveForm(req, reading, pace));
    const arrived = once(req, 'data');
    client.write('x');
    await arrived;
    mock.timers.tick(pace.windowMs);
    expect(await received).to.equal('request_timeout');
  });

  it('is accepted while the store is the cause', async () => {
    const req = await begin('multipart/form-data; boundary=b', part, 2_000_000);
    const windows = Promise.withResolvers<void>();
    const stalled = {
      store: async () => {
        await windows.promise;
        throw appError('storage_quota_exceeded');
      },
      discard: () => Promise.reject(new Error('there is nothing')),
    };
    client.write('x'.repeat(1_000_000));
    mock.timers.enable({ apis: ['setInterval'] });
    const received = appErrorCode(receiveForm(req, stalled, { ...pace, windowBytes: 1_000_000 }));
    await until('the client is held up', async () => req.readableFlowing === false);
    mock.timers.tick(10 * pace.windowMs);
    windows.resolve();
    expect(await received).to.equal('storage_quota_exceeded');
  });

  it('may take hours if it is a form that arrives slowly but steadily', async () => {
    const req = await begin('multipart/form-data; boundary=b', part);
    let storedBytes = 0;
    const counting = {
      store: async ({ content }: { content: AsyncIterable<Buffer> }) => {
        for await (const piece of content) storedBytes += piece.length;
        return storedBytes;
      },
      discard: async () => {},
    };
    mock.timers.enable({ apis: ['setInterval'] });
    const received = receiveForm(req, counting, pace);
    for (let minute = 1; minute <= 10; minute += 1) {
      client.write('x'.repeat(1_000));
      await until('the minute has arrived', async () => storedBytes >= minute * 1_000 - part.length);
      mock.timers.tick(pace.windowMs);
    }
    const end = '\r\n--b--\r\n';
    client.write(`${'x'.repeat(100_000 - 10_000 - part.length - end.length)}${end}`);
    expect((await received).file).to.equal(100_000 - part.length - end.length);
  });

  for (const name of ['file', 'evil']) {
    it(`only ends its own request if the client disconnects within an ignored file part "${name}"`, async () => {
      const part = `--b\r\nContent-Disposition: form-data; name="${name}"; filename="f"\r\n\r\nabc`;
      const req = await begin('multipart/form-data; boundary=b', part);
      const gone = new Promise((resolve) => req.once('close', resolve));
      const refusal = appErrorCode(receiveForm(req, null));
      client.destroy();
      expect(await refusal).to.be.a('string');
      await gone;
    });
  }
});

describe('a client whose body is too slow', () => {
  it('gets the reason and is disconnected', async () => {
    const echo = defineRoute({
      method: 'post',
      path: '/echo',
      operationId: 'echo',
      tag: 'echo',
      summary: 'A body of the tests',
      access: 'public',
      body: z.strictObject({}),
      responses: { 204: { description: 'Done' } },
      handle: () => noContentAnswer(),
    });
    const served = await serveRoutes([echo]);
    mock.timers.enable({ apis: ['setTimeout'] });
    const client = connect(Number(new URL(served.baseUrl).port), '127.0.0.1');
    let isCut = false;
    const answer = text(client).finally(() => {
      isCut = true;
    });
    client.write('POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{');
    while (!isCut) {
      mock.timers.tick(30_000);
      await setImmediate();
    }
    mock.timers.reset();
    expect(await answer).match(/^HTTP\/1.1 408 [\s\S]*request_timeout/);
    await served.close();
  });
});
