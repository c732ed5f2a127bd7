import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { deriveKey } from '#src/derived-key.ts';
import { createDownloadUrlTokens } from '#src/modules/documents/document-files.service.ts';
import { downloadUrlSchema } from '#src/modules/documents/documents.schema.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { anUpload, replaceOriginal } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type FakeClamd, startFakeClamd } from '#test/support/fake-document-services.ts';
import { adaOf } from '#test/support/indexed-documents.ts';
import { type Stack, signUpAt, stack, startStack } from '#test/support/stack.ts';
import { untilJob } from '#test/support/until-job.ts';

const fields = { ingest: 'false' };
const content = '0123456789';

const upload = async (member: ApiClient, text = content) =>
  (await anUpload(member, { name: 'größe "1".html', content: text, type: 'text/html' }, fields)).id;
const replace = (member: ApiClient, id: string, text: string) =>
  replaceOriginal(member, id, { name: 'b.txt', content: text }, fields);
const addressOf = async (member: ApiClient, id: string, headers = {}) =>
  downloadUrlSchema.parse((await member.get(`/documents/${id}/download-url`, 200, headers)).body);

describe('the original of a document', () => {
  let shared: Stack;
  let ada: Member;
  let id: string;
  let urlPath: string;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });
  beforeEach(async () => {
    id = await upload(ada);
    const { url, expires_in } = await addressOf(ada, id);
    expect(url).match(new RegExp(`^${shared.baseUrl}/files/[\\w-]+$`));
    expect(expires_in).equal(900);
    urlPath = new URL(url).pathname;
  });

  it('is sent as a sandboxed attachment with ranges (206) and revalidation (304), also at a download URL', async () => {
    for (const [path, client] of [
      [`/documents/${id}/file`, ada],
      [urlPath, shared.anonymous],
    ] as const) {
      const { body, headers } = await client.get(path, 200);
      expect(body).equal(content);
      expect(headers.get('content-type')).equal('text/html');
      expect(headers.get('content-disposition')).match(/^attachment; .*filename\*=UTF-8''gr%C3%B6%C3%9Fe%20/);
      expect(headers.get('x-content-type-options')).equal('nosniff');
      expect(headers.get('content-security-policy')).contain('sandbox');
      const head = await client.raw(path, { method: 'HEAD' });
      expect([head.status, head.headers.get('content-length'), await head.text()]).deep.equal([200, '10', '']);
      const range = await client.get(path, 206, { Range: 'bytes=2-4' });
      expect([range.body, range.headers.get('content-range')]).deep.equal(['234', 'bytes 2-4/10']);
      await client.get(path, 304, { 'If-None-Match': headers.get('etag') ?? '' });
      const behind = await client.get(path, 416, { Range: 'bytes=10-' });
      expect(behind.headers.get('content-range')).equal('bytes */10');
    }
  });

  it('has a download URL that answers 404 while another original replaces it, and once the document is deleted', async () => {
    await upload(ada);
    await replace(ada, id, 'b');
    expect((await shared.anonymous.get(urlPath, 404)).body).include({ code: 'document_not_found' });
    await replace(ada, id, content);
    await shared.anonymous.get(urlPath, 200);
    await ada.delete(`/documents/${id}`, 204);
    expect((await shared.anonymous.get(urlPath, 404)).body).include({ code: 'document_not_found' });
  });

  it('is not served at a download URL that is expired, forged, altered or incomplete (403)', async () => {
    const contentSha256 = createHash('sha256').update(content).digest('hex');
    const sign = (lifetimeMs: number, secret = shared.config.urlSigningKey) => {
      const tokens = createDownloadUrlTokens(deriveKey(secret, 'file-addresses'));
      const at = new Date(Date.now() + lifetimeMs);
      return tokens.sign({ orgId: ada.orgId, documentId: id, contentSha256 }, at);
    };
    const refusal = async (token: string) =>
      Object((await shared.anonymous.get(`/files/${encodeURIComponent(token)}`, 403)).body).code;
    expect(await refusal(sign(-1))).equal('file_url_expired');
    const token = sign(60_000);
    await shared.anonymous.get(`/files/${token}`, 200);
    const changed = `${token.startsWith('A') ? 'B' : 'A'}${token.slice(1)}`;
    const forged = sign(60_000, 'another key that has enough characters');
    for (const wrong of [changed, forged, token.slice(0, -4), `${token}AAAA`, 'x', 'ü']) {
      expect(await refusal(wrong), wrong).equal('file_url_invalid');
    }
  });

  it('has a download URL at PUBLIC_URL, or else at the address of the request', async () => {
    const settings = { BASE_PATH: '/api', TRUST_PROXY: 'loopback', DOWNLOAD_URL_SECONDS: '60' };
    const own = await startStack(settings, { workers: false });
    const named = await startStack({ PUBLIC_URL: 'https://api.example.com/agents/' }, { workers: false });
    try {
      const member = await signUpAt(own.anonymous.at(`${own.baseUrl}/api`));
      const headers = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'files.example.com' };
      const { url, expires_in } = await addressOf(member, await upload(member), headers);
      expect(url).match(/^https:\/\/files\.example\.com\/api\/files\//);
      expect(expires_in).equal(60);
      const grace = await named.signUp('Grace');
      expect((await addressOf(grace, await upload(grace))).url).match(/^https:\/\/api\.example\.com\/agents\/files\//);
    } finally {
      await Promise.all([own.close(), named.close()]);
    }
  });

  it('fails to download with the reason if it is replaced, lost or deleted before the first byte', async () => {
    const { documentFiles, blobs } = shared.container;
    const actor = { ...adaOf(ada.orgId), userId: ada.userId };
    id = await upload(ada, `a of ${id}`);
    const old = await documentFiles.get(actor, id);
    await replace(ada, id, `b of ${id}`);
    expect(await appErrorCode(old.open())).equal('service_unavailable');
    const { blobKey, open } = await documentFiles.get(actor, id);
    await blobs.delete(blobKey);
    expect(await appErrorCode(open())).equal('blob_missing');
    await ada.delete(`/documents/${id}`, 204);
    expect(await appErrorCode(open())).equal('document_not_found');
  });
});

describe('a malware scanner', () => {
  let clamd: FakeClamd;
  let own: Stack;
  let ada: Member;
  before(async () => {
    clamd = await startFakeClamd();
    own = await startStack({ CLAMD_ADDRESS: clamd.address });
    ada = await own.signUp();
  });
  after(async () => {
    await own.close();
    await clamd.close();
  });

  async function ingest(text: string, status: 'succeeded' | 'failed') {
    const { id } = await anUpload(ada, { name: 'a.txt', content: text });
    return { id, last_error: (await untilJob(ada, `ingest-${id}-1`, status)).last_error };
  }

  it('fails the job of an infected file and blocks all downloads of its content (403) until a scan finds it clean', async () => {
    const clean = await ingest('All is well.', 'succeeded');
    expect(clamd.scanned).deep.equal([12]);
    await ada.get(`/documents/${clean.id}/file`, 200);
    const infected = 'It holds EICAR.';
    const [twin, other] = [await upload(ada, infected), await upload(ada, 'Something else.')];
    const { url } = await addressOf(ada, twin);
    const { id, last_error } = await ingest(infected, 'failed');
    expect(last_error).deep.equal({ code: 'malware_found', message: 'The malware scanner found Test.Signature.' });
    expect((await ada.get(`/documents/${id}`, 200)).body).deep.include({ last_error });
    await replace(ada, other, infected);
    const later = await upload(ada, infected);
    for (const path of [id, twin, other, later].flatMap((each) => [`${each}/file`, `${each}/preview`])) {
      expect((await ada.get(`/documents/${path}`, 403)).body, path).include({ code: 'malware_found' });
    }
    await ada.get(`/documents/${id}/download-url`, 403);
    expect((await fetch(url)).status).equal(403);
    await replace(ada, other, 'Something else.');
    await ada.get(`/documents/${other}/file`, 200);
    // A false positive, whose signature is corrected.
    clamd.word = 'something else';
    await ada.post(`/jobs/ingest-${id}-1/retry`, undefined, 202);
    await untilJob(ada, `ingest-${id}-1`, 'succeeded');
    await ada.get(`/documents/${id}/file`, 200);
  });
});
