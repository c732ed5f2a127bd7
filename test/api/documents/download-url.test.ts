import { createHash } from 'node:crypto';
import { expect } from 'chai';
import { deriveKey } from '#src/derived-key.ts';
import { createDownloadUrlTokens } from '#src/modules/documents/document-files.service.ts';
import { downloadUrlSchema, fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { freshEmail } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';

const fields = { ingest: 'false' };

async function upload(member: ApiClient, content: string, name = 'größe.txt'): Promise<string> {
  const { body } = await member.upload('/documents', { name, content }, 201, { fields });
  return fullDocumentSchema.parse(body).id;
}

const addressOf = async (member: ApiClient, id: string) =>
  downloadUrlSchema.parse((await member.get(`/documents/${id}/download-url`, 200)).body);

describe('GET /documents/{document_id}/download-url', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('200: returns a URL of this API that needs no token', async () => {
    const { url, expires_in } = await addressOf(ada, await upload(ada, 'anybody may read this'));
    expect(url).match(new RegExp(`^${shared.baseUrl}/files/[\\w-]+$`));
    expect(expires_in).equal(900);
    expect(await (await fetch(url)).text()).equal('anybody may read this');
  });

  it('200: takes the base URL from the configuration, else from the request', async () => {
    const own = await startStack(
      { BASE_PATH: '/api', TRUST_PROXY: 'loopback', DOWNLOAD_URL_SECONDS: '60' },
      { workers: false },
    );
    const named = await startStack({ PUBLIC_URL: 'https://api.example.com/agents/' }, { workers: false });
    try {
      const client = own.anonymous.at(`${own.baseUrl}/api`);
      const account = { email: freshEmail(), password: 'Correct-horse-1', display_name: 'Ada' };
      const { access_token } = Object((await client.post('/auth/register', account, 201)).body);
      const member = client.withToken(access_token);
      const id = await upload(member, 'x');
      const headers = { 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'files.example.com' };
      const { body } = await member.get(`/documents/${id}/download-url`, 200, headers);
      expect(downloadUrlSchema.parse(body).url).match(/^https:\/\/files\.example\.com\/api\/files\//);
      expect(downloadUrlSchema.parse(body).expires_in).equal(60);
      const grace = await named.signUp('Grace');
      const { url } = await addressOf(grace, await upload(grace, 'x'));
      expect(url).match(/^https:\/\/api\.example\.com\/agents\/files\//);
    } finally {
      await Promise.all([own.close(), named.close()]);
    }
  });

  it('401: rejects a request without a token', async () => {
    await shared.anonymous.get(`/documents/${await upload(ada, 'x')}/download-url`, 401);
  });

  it('404: rejects a document that the caller may not read', async () => {
    const grace = await shared.signUp('Grace');
    const { body } = await grace.get(`/documents/${await upload(ada, 'x')}/download-url`, 404);
    expect(body).include({ code: 'document_not_found' });
  });
});

describe('GET /files/{token}', () => {
  let shared: Stack;
  let ada: Member;
  let id: string;
  let path: string;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });
  beforeEach(async () => {
    id = await upload(ada, '0123456789');
    path = new URL((await addressOf(ada, id)).url).pathname;
  });
  const sign = (contentSha256: string, expiresAt: Date, secret = shared.config.urlSigningKey) =>
    createDownloadUrlTokens(deriveKey(secret, 'file-addresses')).sign(
      { orgId: ada.orgId, documentId: id, contentSha256 },
      expiresAt,
    );
  const sha256 = createHash('sha256').update('0123456789').digest('hex');
  const later = () => new Date(Date.now() + 60_000);

  it('200: returns the original as an attachment that no browser executes', async () => {
    const { body, headers } = await shared.anonymous.get(path, 200);
    expect(body).equal('0123456789');
    expect(headers.get('content-disposition')).match(/^attachment; .*filename\*=UTF-8''gr%C3%B6%C3%9Fe\.txt$/);
    expect(headers.get('content-security-policy')).contain('sandbox');
    expect(headers.get('etag')).equal(`"${sha256}"`);
    const head = await shared.anonymous.raw(path, { method: 'HEAD' });
    expect([head.status, head.headers.get('content-length'), await head.text()]).deep.equal([200, '10', '']);
  });

  it('206: returns the requested range', async () => {
    const { body, headers } = await shared.anonymous.get(path, 206, { Range: 'bytes=2-4' });
    expect(body).equal('234');
    expect(headers.get('content-range')).equal('bytes 2-4/10');
  });

  it('304: answers a matching ETag without a body', async () => {
    await shared.anonymous.get(path, 304, { 'If-None-Match': `"${sha256}"` });
  });

  it('403: rejects an expired URL', async () => {
    const { body } = await shared.anonymous.get(`/files/${sign(sha256, new Date(Date.now() - 1))}`, 403);
    expect(body).include({ code: 'file_url_expired' });
  });

  it('403: rejects forged, altered and incomplete tokens', async () => {
    const token = sign(sha256, later());
    const changed = `${token.startsWith('A') ? 'B' : 'A'}${token.slice(1)}`;
    const strange = sign(sha256, later(), 'another key that has enough characters');
    for (const wrong of [changed, strange, token.slice(0, -4), `${token}AAAA`, 'x', 'ü']) {
      const { body } = await shared.anonymous.get(`/files/${encodeURIComponent(wrong)}`, 403);
      expect(body, wrong).include({ code: 'file_url_invalid' });
    }
  });

  it('404: rejects the URL of a replaced original', async () => {
    await ada.upload(`/documents/${id}`, { name: 'b.txt', content: 'b' }, 200, { method: 'PATCH', fields });
    expect((await shared.anonymous.get(path, 404)).body).include({ code: 'document_not_found' });
  });

  it('404: rejects the URL of a deleted document even if another document has the same content', async () => {
    await upload(ada, '0123456789');
    await ada.delete(`/documents/${id}`, 204);
    expect((await shared.anonymous.get(path, 404)).body).include({ code: 'document_not_found' });
  });

  it('416: rejects a range behind the end', async () => {
    await shared.anonymous.get(path, 416, { Range: 'bytes=10-' });
  });
});
