import { readdir } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { expect } from 'chai';
import { replaceOriginal } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const MB = 1024 ** 2;
const head = '--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n';
const end = '\r\n--b--\r\n';
const formBytes = (fileBytes: number) => head.length + fileBytes + end.length;

const AT_ONCE = 16;
const FITTING = 5;
const FILE_BYTES = 300;

describe('the storage quota', () => {
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
  afterEach(() => until('nothing is staged', async () => (await countStaged()) === 0));

  async function countStaged(): Promise<number> {
    const { blobs } = stack.config;
    if (blobs.store !== 'filesystem') throw new Error('the stack keeps files on the file system');
    return (await readdir(join(blobs.directory, 'incoming')).catch(() => [])).length;
  }

  /** Begins an upload and does not finish it. Without a length the transfer encoding is chunked. */
  function begin(contentLength?: number) {
    const req = request(`${stack.baseUrl}/documents`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'multipart/form-data; boundary=b',
        ...(contentLength !== undefined && { 'content-length': contentLength }),
      },
    }).on('error', () => {});
    req.write(head);
    const answer = new Promise<IncomingMessage>((resolve) => req.once('response', resolve)).then(async (res) => {
      return { status: res.statusCode, code: Object(await json(res)).code };
    });
    return { req, answer };
  }

  async function upload(content: string) {
    const form = new FormData();
    form.set('file', new Blob([content]), 'a.txt');
    form.set('ingest', 'false');
    const reply = await ada.raw('/documents', { method: 'POST', body: form });
    const { code, id } = Object(await reply.json());
    return { status: reply.status, retryAfter: reply.headers.get('retry-after'), code, id };
  }
  const uploadOf = (bytes: number) => upload('x'.repeat(bytes));
  const quotaExceeded = { status: 409, code: 'storage_quota_exceeded' };
  const tryAgain = { status: 429, retryAfter: '5', code: 'rate_limited', id: undefined };

  for (const [what, start, objects] of [
    ['different files', (index: number) => `${index}`, FITTING],
    ['equal files, each of which counts', () => '', 1],
  ] as const) {
    it(`is exact for concurrent uploads of ${what}, and rejected uploads leave nothing behind`, async () => {
      await uploadOf(4 * MB - FITTING * FILE_BYTES - 10);
      const contents = Array.from({ length: AT_ONCE }, (_, index) => start(index).padEnd(FILE_BYTES, '.'));
      const codes = (await Promise.all(contents.map(upload))).filter(({ status }) => status !== 201);
      expect(codes).length(AT_ONCE - FITTING);
      // Whether there is room is only known once the other uploads have ended.
      for (const { code } of codes) expect(code).oneOf([quotaExceeded.code, tryAgain.code]);
      expect(await uploadOf(FILE_BYTES)).include(quotaExceeded);
      const stored = await stack.container.blobs.list({ after: null, limit: 1_000 });
      expect(stored.filter(({ key }) => key.startsWith(ada.orgId))).length(1 + objects);
      expect((await ada.get('/documents', 200)).body).include({ total: 1 + FITTING });
    });
  }

  it('rejects a file by its Content-Length before reading it, or without one once it exceeds the quota', async () => {
    for (const [expected, announced, sent] of [
      [quotaExceeded, formBytes(20 * MB), 2 * MB],
      [{ status: 413, code: 'payload_too_large' }, formBytes(40 * MB), 1],
      [quotaExceeded, undefined, 5 * MB],
    ] as const) {
      const { req, answer } = begin(announced);
      req.write('x'.repeat(sent));
      expect(await answer).deep.equal(expected);
      if (announced !== undefined) expect(await countStaged()).equal(0);
      req.destroy();
    }
  });

  it('is not exceeded by two uploads at once: the second is told to try again', async () => {
    const first = begin(formBytes(3 * MB));
    first.req.write('x');
    await until('the first is under way', async () => (await countStaged()) === 1);
    expect(await uploadOf(2.5 * MB)).deep.equal(tryAgain);
    expect(await uploadOf(MB / 2)).include({ status: 201 });
    first.req.end('x'.repeat(3 * MB - 1) + end);
    expect((await first.answer).status).equal(201);
    expect(await uploadOf(2.5 * MB)).include(quotaExceeded);
  });

  it('frees the space reserved for an upload when the client disconnects or the upload is rejected', async () => {
    const left = begin(formBytes(3 * MB));
    left.req.write('x');
    await until('it is under way', async () => (await countStaged()) === 1);
    left.req.destroy();
    await until('the first has left', async () => (await countStaged()) === 0);
    const unknown = '\r\n--b\r\nContent-Disposition: form-data; name="unknown"\r\n\r\ny';
    const refused = begin(formBytes(3 * MB) + unknown.length);
    refused.req.end(`${'x'.repeat(3 * MB)}${unknown}${end}`);
    expect((await refused.answer).status).equal(422);
    expect(await uploadOf(3.5 * MB)).include({ status: 201 });
  });

  it('temporarily rejects an upload that, together with deleted files still on disk, would exceed twice the quota', async () => {
    // No worker runs, so deleted files stay on disk.
    for (const n of [1, 2]) await ada.delete(`/documents/${(await uploadOf(3 * MB + n)).id}`, 204);
    expect(await uploadOf(2 * MB)).deep.equal(tryAgain);
    expect(await uploadOf(MB)).include({ status: 201 });
  });

  it('does not count a file that is replaced, and keeps the old file if the new one exceeds the quota', async () => {
    const { id } = await uploadOf(3 * MB);
    const file = (bytes: number) => ({ name: 'a.txt', content: 'z'.repeat(bytes) });
    await replaceOriginal(ada, id, file(4 * MB), { ingest: 'false' });
    const { body } = await ada.upload(`/documents/${id}`, file(4 * MB + 1), 409, { method: 'PATCH' });
    expect(body).include({ code: quotaExceeded.code });
    expect((await (await ada.raw(`/documents/${id}/file`)).text()).length).equal(4 * MB);
  });
});
