import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { expect } from 'chai';
import { readJsonBody } from '#src/http/json-body.ts';
import { receiveForm } from '#src/http/upload.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

const patienceMs = 50;

describe('a body that does not come', () => {
  let server: Server;
  let client: Socket;
  /** Settles when the client is cut off, by a reset or politely. */
  let left: Promise<void>;
  afterEach(() => {
    client.destroy();
    server.close();
  });

  /** Sends the beginning of a request; resolves with it as the server has it. */
  async function begin(contentType: string, body: string): Promise<IncomingMessage> {
    server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    client = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {});
    // One that reads nothing would not notice a polite goodbye.
    client.resume();
    left = new Promise((resolve) => client.once('close', () => resolve()));
    client.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${contentType}\r\nContent-Length: 100000\r\n\r\n${body}`);
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
    const part = '--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nsome bytes';
    const req = await begin('multipart/form-data; boundary=b', part);
    const target = {
      store: async ({ content }: { content: AsyncIterable<unknown> }) => {
        for await (const _ of content);
        throw new Error('it did not end');
      },
      discard: () => Promise.reject(new Error('there is nothing')),
    };
    expect(await appErrorCode(receiveForm(req, target, patienceMs))).to.equal('malformed_request');
    await left;
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
