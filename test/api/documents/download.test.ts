import { expect } from 'chai';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

const page = '<script>alert("hello")</script>';

describe('GET /documents/{document_id}/file', () => {
  let shared: Stack;
  let ada: Member;
  let path: string;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    const form = { name: 'größe "1".html', content: page, type: 'text/html' };
    const { body } = await ada.upload('/documents', form, 201, { fields: { ingest: 'false' } });
    path = `/documents/${fullDocumentSchema.parse(body).id}/file`;
  });

  it('200: returns the original as an attachment that no browser executes', async () => {
    const { body, headers } = await ada.get(path, 200);
    expect(body).to.equal(page);
    expect(headers.get('content-type')).to.equal('text/html');
    expect(headers.get('content-disposition')).to.match(/^attachment; .*filename\*=UTF-8''gr%C3%B6%C3%9Fe%20/);
    expect(headers.get('x-content-type-options')).to.equal('nosniff');
    expect(headers.get('content-security-policy')).to.contain('sandbox');
  });

  it('206: returns the requested range', async () => {
    const { body, headers } = await ada.get(path, 206, { Range: 'bytes=1-6' });
    expect(body).to.equal('script');
    expect(headers.get('content-range')).to.equal(`bytes 1-6/${page.length}`);
  });

  it('304: answers a matching ETag without a body', async () => {
    const { headers } = await ada.get(path, 200);
    await ada.get(path, 304, { 'If-None-Match': headers.get('etag') ?? '' });
  });

  it('401: rejects a request without a token', async () => {
    await shared.anonymous.get(path, 401);
  });

  it('403: rejects a file in which the malware scanner has found something', async () => {
    const { body } = await ada.upload('/documents', { name: 'harm.txt', content: 'It does harm.' }, 201, {
      fields: { ingest: 'false' },
    });
    const { id } = fullDocumentSchema.parse(body);
    const { db } = shared.container;
    const { contentSha256: sha256 } = await db('documents').where({ id }).first('contentSha256');
    await db('documents')
      .where({ id })
      .update({ malware: JSON.stringify({ sha256, signature: 'Test' }) });
    expect((await ada.get(`/documents/${id}/file`, 403)).body).to.include({ code: 'malware_found' });
  });

  it('404: answers a caller without access as for an unknown document', async () => {
    expect((await (await shared.signUp('Eve')).get(path, 404)).body).to.include({ code: 'document_not_found' });
  });

  it('404 or 503: fails if the document is deleted or replaced before the first byte', async () => {
    const { body } = await ada.upload('/documents', { name: 'a.txt', content: 'a' }, 201, {
      fields: { ingest: 'false' },
    });
    const { id } = fullDocumentSchema.parse(body);
    const actor = {
      userId: ada.userId,
      orgId: ada.orgId,
      isOrgAdmin: true,
      teamIds: [],
      teamAdminOf: [],
      openTeamIds: [],
    };
    const old = await shared.container.documentFiles.get(actor, id);
    const form = { method: 'PATCH', fields: { ingest: 'false' } } as const;
    await ada.upload(`/documents/${id}`, { name: 'b.txt', content: 'b' }, 200, form);
    expect(await appErrorCode(old.open())).to.equal('service_unavailable');
    const { blobKey, open } = await shared.container.documentFiles.get(actor, id);
    await shared.container.blobs.delete(blobKey);
    expect(await appErrorCode(open())).to.equal('blob_missing');
    await ada.delete(`/documents/${id}`, 204);
    expect(await appErrorCode(open())).to.equal('document_not_found');
  });

  it('416: rejects a range behind the end', async () => {
    const { headers } = await ada.get(path, 416, { Range: 'bytes=1000-' });
    expect(headers.get('content-range')).to.equal(`bytes */${page.length}`);
  });
});
