import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { mock } from 'node:test';
import { expect } from 'chai';
import { appError } from '#src/errors.ts';
import { readJsonBody } from '#src/http/json-body.ts';
import { receiveForm } from '#src/http/upload.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { until } from '#test/support/until.ts';

const patienceMs = 50;
/** Nothing ends a body for its rate. */
const pace = { idleMs: 60_000, windowMs: 60_000, windowBytes: 0 };

const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n';
const reading = {
  store: async ({ content }: { content: AsyncIterable<unknown> }) => {
    for await (const _ of content);
    throw new Error('it did not end');
  },
  discard: () => Promise.reject(new Error('there is nothing')),
};

describe('a body that does not come', () => {
  let server: Server;
  let client: Socket;
  /** Settles when the client is cut off, by a reset or politely. */
  let left: Promise<void>;
  afterEach(() => {
    mock.timers.reset();
    client.destroy();
    server.close();
  });

  /** Sends the beginning of a request; resolves with it as the server has it. */
  async function begin(contentType: string, body: string, contentLength = 100_000): Promise<IncomingMessage> {
    server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
    // One that reads nothing would not notice a polite goodbye.
    client.resume();
    left = new Promise((resolve) => client.once('close', () => resolve()));
    client.write(
      `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${contentType}\r\nContent-Length: ${contentLength}\r\n\r\n${body}`,
    );
    const [req]: [IncomingMessage] = (await once(server, 'request')) as [IncomingMessage];
    return req;
  }

  it('is given up when it is JSON, however steadily it drips', async () => {
    const req = await begin('application/json', '{"name": "');
    const drip = setInterval(() => client.write('x'), patienceMs / 5);
    expect(await appErrorCode(readJsonBody(req, 100_000, patienceMs))).to.equal('malformed_request');
    await left;
    clearInterval(drip);
  });

  it('is given up when it is a form that stands still, and its file is not kept', async () => {
    const req = await begin('multipart/form-data; boundary=b', `${part}some bytes`);
    expect(await appErrorCode(receiveForm(req, reading, { ...pace, idleMs: patienceMs }))).to.equal(
      'malformed_request',
    );
    await left;
  });

  it('is given up with request_timeout when it is a form that trickles, and its file is not kept', async () => {
    const req = await begin('multipart/form-data; boundary=b', part);
    const drip = setInterval(() => client.write('x'), patienceMs / 5);
    const trickling = { ...pace, windowMs: patienceMs, windowBytes: 1_000_000 };
    expect(await appErrorCode(receiveForm(req, reading, trickling))).to.equal('request_timeout');
    clearInterval(drip);
  });

  it('is not blamed on the client while the store takes no more', async () => {
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

  it('may take hours when it is a form that arrives slowly but steadily', async () => {
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
    const received = receiveForm(req, counting, { ...pace, windowBytes: 1_000 });
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
    it(`ends nothing but its request when its client goes amid a file part "${name}" that is not taken`, async () => {
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
