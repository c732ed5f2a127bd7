import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { expect } from 'chai';
import pino from 'pino';
import { loadCodecServerConfig } from '#src/config/temporal-config.ts';
import { createCodecApp } from '#src/http/server/codec-app.ts';
import { createPayloadCodec } from '#src/temporal/data-converter.ts';
import { serveLocally } from '#test/support/local-server.ts';

const aKey = (id: number) => `${id}:${randomBytes(32).toString('base64')}`;
const key = aKey(1);
const base64 = (text: string) => Buffer.from(text).toString('base64');
const plain = { metadata: { encoding: base64('json/plain') }, data: base64('"a secret"') };
const payloads = [plain];

describe('the codec server', () => {
  const servers: { close(): Promise<void> }[] = [];
  after(() => Promise.all(servers.map((server) => server.close())));

  /** @returns sends a request with any host, origin and token */
  async function serve(settings: Record<string, string> = {}) {
    const { payloadKeys, ...access } = loadCodecServerConfig({ TEMPORAL_CODEC_KEY: key, ...settings });
    const codec = createPayloadCodec(payloadKeys);
    const server = await serveLocally(createCodecApp({ codec, ...access, logger: pino({ level: 'silent' }) }));
    servers.push(server);
    return async (path: string, body?: unknown, fields: Record<string, string> = {}) => {
      const { method = 'POST', ...others } = fields;
      const headers = { ...(body !== undefined && { 'content-type': 'application/json' }), ...others };
      const call = request(server.baseUrl + path, { method, agent: false, headers });
      call.end(body === undefined ? undefined : JSON.stringify(body));
      const [answer] = (await once(call, 'response')) as [IncomingMessage];
      // The server may reset the connection after its answer, when it has refused the rest of the body.
      call.on('error', () => undefined);
      const parsed = JSON.parse((await textOf(answer)) || '{}');
      return { status: answer.statusCode, body: parsed, headers: answer.headers };
    };
  }

  it('encrypts and decrypts payloads', async () => {
    const ask = await serve();
    const { status, body } = await ask('/encode', { payloads }, { 'x-namespace': 'default' });
    expect(status).equal(200);
    const [encrypted] = body.payloads ?? [];
    expect(encrypted?.metadata.encoding).equal(base64('binary/encrypted'));
    const decoded = await ask('/decode', { payloads: [encrypted, plain] });
    expect(decoded.body).deep.equal({ payloads: [plain, plain] });
    // The CLI sends no payloads for a query without arguments.
    expect((await ask('/encode', {})).body).deep.equal({ payloads: [] });
    expect((await ask('/healthz', undefined, { method: 'GET' })).body).deep.equal({ status: 'ok' });
    const other = await serve({ TEMPORAL_CODEC_KEY: aKey(2) });
    const refused = await other('/decode', { payloads: [encrypted] });
    const detail = 'TEMPORAL_CODEC_KEY lacks the key "1", which encrypted the payload.';
    expect([refused.status, refused.body.detail]).deep.equal([400, detail]);
  });

  it('rejects wrong payloads and bodies that are too large', async () => {
    const ask = await serve();
    for (const wrong of [null, 'x', [{ data: 'no base64!' }], [null]]) {
      expect((await ask('/decode', { payloads: wrong })).status, JSON.stringify(wrong)).equal(422);
    }
    const large = { payloads: [{ ...plain, data: 'A'.repeat(17 * 1024 * 1024) }] };
    // The server may close the connection before the whole body was sent.
    expect((await ask('/decode', large, { connection: 'keep-alive' })).status).equal(413);
  });

  it('only allows CORS requests from the configured UI origins', async () => {
    const origin = 'https://temporal.example';
    const ask = await serve({ CODEC_UI_ORIGINS: origin });
    const headersAsked = 'access-control-request-headers';
    const asked = { method: 'OPTIONS', [headersAsked]: 'content-type,x-namespace' };
    const allowed = { 'access-control-allow-origin': origin };
    const preflight = await ask('/decode', undefined, { ...asked, origin });
    const methods = { 'access-control-allow-methods': 'POST' };
    expect(preflight.headers).include({ ...allowed, ...methods, 'access-control-allow-headers': asked[headersAsked] });
    expect((await ask('/decode', { payloads }, { origin })).headers).include(allowed);
    for (const other of ['https://evil.example', 'null', 'http://temporal.example']) {
      const { status, headers } = await ask('/decode', { payloads }, { origin: other });
      expect(status).equal(403);
      expect(headers).not.property('access-control-allow-origin');
    }
  });

  it('accepts only loopback Host headers when no token is set, against DNS rebinding', async () => {
    const ask = await serve();
    const loopback = ['localhost:8234', '127.0.0.1', '[::1]:8234'];
    for (const host of [...loopback, 'evil.example:8234', '127.0.0.1.evil.example', '10.0.0.1']) {
      const { status } = await ask('/decode', { payloads }, { host });
      expect(status, host).equal(loopback.includes(host) ? 200 : 403);
    }
  });

  it('requires the token if a token is set', async () => {
    const token = 'a-token-of-thirty-two-characters-or-more';
    const ask = await serve({ CODEC_HOST: '0.0.0.0', CODEC_TOKEN: token });
    const decode = (authorization: string) => ask('/decode', { payloads }, { host: 'codec.example', authorization });
    for (const wrong of ['', token, `Bearer ${token}x`, 'Bearer ']) {
      const { status, body } = await decode(wrong);
      expect([status, body.code], wrong).deep.equal([401, 'invalid_token']);
    }
    expect((await decode(`Bearer ${token}`)).status).equal(200);
  });

  it('refuses to start without a key, and without a token on a public address', () => {
    expect(() => loadCodecServerConfig({})).throw('wrong setting TEMPORAL_CODEC_KEY: is required');
    for (const CODEC_HOST of ['0.0.0.0', '::', '10.1.2.3', 'codec.example']) {
      expect(() => loadCodecServerConfig({ TEMPORAL_CODEC_KEY: key, CODEC_HOST })).throw(
        'wrong setting CODEC_TOKEN: required unless CODEC_HOST is a loopback address',
      );
    }
  });
});
