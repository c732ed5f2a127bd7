import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { expect } from 'chai';
import pino from 'pino';
import { loadCodecServerConfig } from '#src/config/temporal-config.ts';
import { createCodecApp } from '#src/http/server/codec-app.ts';
import { createPayloadCodec } from '#src/temporal/data-converter.ts';

const key = `1:${randomBytes(32).toString('base64')}`;
const token = 'a-token-of-thirty-two-characters-or-more';
const ui = 'https://temporal.example';
const base64 = (text: string) => Buffer.from(text).toString('base64');
const plain = { metadata: { encoding: base64('json/plain') }, data: base64('"a secret"') };

type Answer = {
  status: number;
  body: { payloads?: (typeof plain)[]; code?: string; detail?: string } | null;
  headers: object;
};

describe('the codec server', () => {
  const servers: Server[] = [];
  after(() => {
    for (const server of servers) server.close().closeAllConnections();
  });

  /** Sends a request with any host, origin and token. */
  async function serve(settings: Record<string, string> = {}) {
    const { payloadKeys, ...access } = loadCodecServerConfig({ TEMPORAL_CODEC_KEY: key, ...settings });
    const codec = createPayloadCodec(payloadKeys);
    const server = createServer(createCodecApp({ codec, ...access, logger: pino({ level: 'silent' }) }));
    servers.push(server);
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const { port } = server.address() as AddressInfo;

    return async (
      path: string,
      body?: unknown,
      { method = 'POST', ...headers }: Record<string, string> = {},
    ): Promise<Answer> => {
      const sent: Record<string, string> = body === undefined ? {} : { 'content-type': 'application/json' };
      const call = request({ port, host: '127.0.0.1', path, method, agent: false, headers: { ...sent, ...headers } });
      call.end(body === undefined ? undefined : JSON.stringify(body));
      const [answer] = await once(call, 'response');
      // The server may reset the connection after its answer, when it has refused the rest of the body.
      call.on('error', () => undefined);
      const text = await textOf(answer);
      return { status: answer.statusCode, body: text === '' ? null : JSON.parse(text), headers: answer.headers };
    };
  }

  it('encrypts payloads and decrypts them again', async () => {
    const ask = await serve();
    const { status, body } = await ask('/encode', { payloads: [plain] }, { 'x-namespace': 'default' });
    expect(status).equal(200);
    expect(body?.payloads?.[0]?.metadata.encoding).equal(base64('binary/encrypted'));
    expect((await ask('/decode', { payloads: [...(body?.payloads ?? []), plain] })).body).deep.equal({
      payloads: [plain, plain],
    });
    // The CLI sends no payloads for a query without arguments.
    expect((await ask('/encode', {})).body).deep.equal({ payloads: [] });
    expect((await ask('/healthz', undefined, { method: 'GET' })).body).deep.equal({ status: 'ok' });
  });

  it('explains what is wrong with a request without quoting its bytes', async () => {
    const ask = await serve();
    const sealed = (await ask('/encode', { payloads: [plain] })).body?.payloads?.[0];
    const other = await serve({ TEMPORAL_CODEC_KEY: `2:${randomBytes(32).toString('base64')}` });
    const refused = await other('/decode', { payloads: [sealed] });
    expect([refused.status, refused.body?.detail]).deep.equal([
      400,
      'TEMPORAL_CODEC_KEY lacks the key "1", which encrypted the payload.',
    ]);
    for (const body of [
      { payloads: null },
      { payloads: 'x' },
      { payloads: [{ data: 'no base64!' }] },
      { payloads: [null] },
    ]) {
      expect((await ask('/decode', body)).status, JSON.stringify(body)).equal(422);
    }
    const large = { payloads: [{ ...plain, data: 'A'.repeat(17 * 1024 * 1024) }] };
    // The server may close the connection before the whole body was sent.
    expect((await ask('/decode', large, { connection: 'keep-alive' })).status).equal(413);
    expect((await ask('/decode', undefined, { method: 'GET' })).status).equal(404);
    expect((await ask('/elsewhere', {})).status).equal(404);
  });

  it('only allows CORS requests from the configured UI origins', async () => {
    const ask = await serve({ CODEC_UI_ORIGINS: ui });
    const preflight = { method: 'OPTIONS', 'access-control-request-headers': 'content-type,x-namespace' };
    expect((await ask('/decode', undefined, { ...preflight, origin: ui })).headers).to.include({
      'access-control-allow-origin': ui,
      'access-control-allow-headers': 'content-type,x-namespace',
      'access-control-allow-methods': 'POST',
    });
    expect((await ask('/decode', { payloads: [plain] }, { origin: ui })).headers).to.include({
      'access-control-allow-origin': ui,
    });
    for (const origin of ['https://evil.example', 'null', 'http://temporal.example']) {
      const { status, headers } = await ask('/decode', { payloads: [plain] }, { origin });
      expect(status).equal(403);
      expect(headers).not.to.have.property('access-control-allow-origin');
    }
  });

  it('accepts only loopback Host headers when no token is set, against DNS rebinding', async () => {
    const ask = await serve();
    for (const host of ['localhost:8234', '127.0.0.1', '[::1]:8234']) {
      expect((await ask('/decode', { payloads: [plain] }, { host })).status, host).equal(200);
    }
    for (const host of ['evil.example:8234', '127.0.0.1.evil.example', '10.0.0.1']) {
      expect((await ask('/decode', { payloads: [plain] }, { host })).status, host).equal(403);
    }
  });

  it('requires the token if one is set', async () => {
    const ask = await serve({ CODEC_HOST: '0.0.0.0', CODEC_TOKEN: token });
    const host = 'codec.example';
    for (const authorization of ['', token, `Bearer ${token}x`, 'Bearer ']) {
      const { status, body } = await ask('/decode', { payloads: [plain] }, { host, authorization });
      expect([status, body?.code], authorization).deep.equal([401, 'invalid_token']);
    }
    expect((await ask('/decode', { payloads: [plain] }, { host, authorization: `Bearer ${token}` })).status).equal(200);
  });

  it('refuses to start without a key, and without a token on a public address', () => {
    expect(() => loadCodecServerConfig({})).to.throw('wrong setting TEMPORAL_CODEC_KEY: is required');
    for (const CODEC_HOST of ['0.0.0.0', '::', '10.1.2.3', 'codec.example']) {
      expect(() => loadCodecServerConfig({ TEMPORAL_CODEC_KEY: key, CODEC_HOST })).to.throw(
        'wrong setting CODEC_TOKEN: required unless CODEC_HOST is a loopback address',
      );
    }
  });
});
