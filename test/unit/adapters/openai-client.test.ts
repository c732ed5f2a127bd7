import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { createOpenAiClient, isServerInPrivateNetwork } from '#src/adapters/models/openai-client.ts';

describe('the trace header of a model call', () => {
  let server: Server;
  let baseUrl: string;
  const heard: (string | undefined)[] = [];
  const traceparent = '00-a1b2c3d4e5f60718293a4b5c6d7e8f90-00f067aa0ba902b7-01';

  before(async () => {
    server = createServer((req, res) => {
      heard.push(req.headers.traceparent?.toString());
      res.writeHead(200, { 'content-type': 'application/json' }).end('{"data":[]}');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  });
  after(() => {
    server.close();
    server.closeAllConnections();
  });

  it('is sent to a server of the deployment, also by a client with other options', async () => {
    const client = createOpenAiClient({ baseUrl, apiKey: 'key', traceparent: () => traceparent }, 5_000);
    await client.models.list();
    await client.withOptions({ fetch }).models.list();
    await createOpenAiClient({ baseUrl, apiKey: 'key', traceparent: () => undefined }, 5_000).models.list();
    expect(heard).to.deep.equal([traceparent, traceparent, undefined]);
  });

  for (const own of [
    'http://127.0.0.1:3010/v1',
    'http://[::1]:3010/v1',
    'http://10.0.0.7/v1',
    'http://model-server/v1',
  ]) {
    it(`treats ${own} as a server of the deployment`, () => {
      expect(isServerInPrivateNetwork(own)).equal(true);
    });
  }
  for (const foreign of ['https://api.openai.com/v1', 'http://203.0.114.7/v1', 'https://models.example.com/v1']) {
    it(`treats ${foreign} as an external server`, () => {
      expect(isServerInPrivateNetwork(foreign)).equal(false);
    });
  }
});
