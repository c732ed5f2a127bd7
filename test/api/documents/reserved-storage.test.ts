import { readdir, stat } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const MB = 1024 ** 2;
const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n';
const end = '\r\n--b--\r\n';
const formBytes = (fileBytes: number) => head.length + fileBytes + end.length;

describe('storage that uploads under way reserve', () => {
  let stack: Stack;
  let ada: Member;
  let token: string;
  before(async () => {
    const free = { storageBytes: 4 * MB, fileSizeBytes: 30 * MB };
    stack = await startStack({ TIER_LIMITS: JSON.stringify({ free }) }, { workers: false });
  });
  after(() => stack.close());
  beforeEach(async () => {
    ada = await stack.signUp();
    const { email, password } = ada;
    token = Object((await stack.anonymous.post('/auth/login', { username: email, password }, 200)).body).access_token;
  });
  afterEach(() => until('nothing is staged', async () => (await staged()).files === 0));

  /** The bytes on disk of unfinished uploads. */
  async function staged(): Promise<{ files: number; bytes: number }> {
    const { blobs } = stack.config;
    if (blobs.store !== 'filesystem') throw new Error('the stack keeps files on the file system');
    const incoming = join(blobs.directory, 'incoming');
    const names = await readdir(incoming).catch(() => []);
    const sizes = await Promise.all(names.map((name) => stat(join(incoming, name)).then(({ size }) => size)));
    return { files: names.length, bytes: sizes.reduce((sum, size) => sum + size, 0) };
  }

  /** Begins an upload and does not finish it. Without `contentLength` the transfer encoding is chunked. */
  function begin({ contentLength, path = '/documents', method = 'POST' }: Record<string, string | number> = {}) {
    const req = request(stack.baseUrl + path, {
      method: String(method),
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'multipart/form-data; boundary=b',
        ...(contentLength !== undefined && { 'content-length': contentLength }),
      },
    }).on('error', () => {});
    req.write(head);
    const answer = new Promise<IncomingMessage>((resolve) => req.once('response', resolve)).then(async (res) => {
      return { status: res.statusCode, headers: res.headers, body: JSON.parse(await text(res)) };
    });
    return { req, answer };
  }

  const upload = (bytes: number) =>
    ada.raw('/documents', { method: 'POST', body: formOf(bytes) }).then(async (reply) => {
      return {
        status: reply.status,
        retryAfter: reply.headers.get('retry-after'),
        code: Object(await reply.json()).code,
      };
    });
  function formOf(bytes: number): FormData {
    const form = new FormData();
    form.set('file', new Blob(['x'.repeat(bytes)]), 'a.txt');
    form.set('ingest', 'false');
    return form;
  }

  it('refuses a file that its Content-Length shows to be too large before a byte of it is written', async () => {
    const { req, answer } = begin({ contentLength: formBytes(20 * MB) });
    req.write('x'.repeat(2 * MB));
    const { status, body } = await answer;
    expect({ status, code: body.code }).deep.equal({ status: 409, code: 'storage_quota_exceeded' });
    expect(await staged()).deep.equal({ files: 0, bytes: 0 });
    req.destroy();
  });

  it("refuses a file above the tier's size limit in the same way with 413", async () => {
    const { req, answer } = begin({ contentLength: formBytes(40 * MB) });
    req.write('x');
    const { status, body } = await answer;
    expect({ status, code: body.code }).deep.equal({ status: 413, code: 'payload_too_large' });
    req.destroy();
  });

  it('stops a file without Content-Length at the quota', async () => {
    const { req, answer } = begin();
    req.write('x'.repeat(5 * MB));
    const { status, body } = await answer;
    req.destroy();
    expect({ status, code: body.code }).deep.equal({ status: 409, code: 'storage_quota_exceeded' });
  });

  it('does not let two uploads exceed the quota together: the second is told to try again', async () => {
    const first = begin({ contentLength: formBytes(3 * MB) });
    first.req.write('x');
    await until('the first is under way', async () => (await staged()).files === 1);
    expect(await upload(2.5 * MB)).deep.equal({ status: 429, retryAfter: '5', code: 'rate_limited' });
    expect(await upload(MB / 2)).include({ status: 201 });
    first.req.end('x'.repeat(3 * MB - 1) + end);
    expect((await first.answer).status).equal(201);
    expect(await upload(2.5 * MB)).include({ status: 409, code: 'storage_quota_exceeded' });
  });

  it('frees what an upload has reserved when its client leaves, and when it is refused', async () => {
    const left = begin({ contentLength: formBytes(3 * MB) });
    left.req.write('x');
    await until('it is under way', async () => (await staged()).files === 1);
    left.req.destroy();
    const refused = begin({ contentLength: formBytes(3 * MB) + 200 });
    const unknown = '\r\n--b\r\nContent-Disposition: form-data; name="unknown"\r\n\r\n';
    const body = `${'x'.repeat(3 * MB)}${unknown}`;
    await until('the first has left', async () => (await staged()).files === 0);
    refused.req.end(`${body}${'y'.repeat(200 - unknown.length)}${end}`);
    expect((await refused.answer).status).equal(422);
    expect(await upload(3.5 * MB)).include({ status: 201 });
  });

  it('refuses more files while as many deleted ones as the quota allows are still on disk', async () => {
    for (const n of [1, 2]) {
      const { id } = Object(await (await ada.raw('/documents', { method: 'POST', body: formOf(3 * MB + n) })).json());
      // No worker runs, so its file stays on disk.
      await ada.delete(`/documents/${id}`, 204);
    }
    expect(await upload(2 * MB)).deep.equal({ status: 429, retryAfter: '5', code: 'rate_limited' });
    expect(await upload(MB)).include({ status: 201 });
  });

  it('counts the file that is replaced as free', async () => {
    const { body } = await ada.upload('/documents', { name: 'a.txt', content: 'x'.repeat(3 * MB) }, 201, {
      fields: { ingest: 'false' },
    });
    const { id } = fullDocumentSchema.parse(body);
    const again = { method: 'PATCH', fields: { ingest: 'false' } } as const;
    await ada.upload(`/documents/${id}`, { name: 'a.txt', content: 'y'.repeat(4 * MB) }, 200, again);
    const { body: problem } = await ada.upload(
      `/documents/${id}`,
      { name: 'a.txt', content: 'z'.repeat(4 * MB + 1) },
      409,
      again,
    );
    expect(problem).include({ code: 'storage_quota_exceeded' });
  });
});
