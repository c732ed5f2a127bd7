import { expect } from 'chai';
import { documentListSchema, fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('GET /documents', () => {
  let shared: Stack;
  let ada: Member;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    for (const name of ['one', 'two', 'three']) {
      await ada.upload('/documents', { name: `${name}.txt`, content: name }, 201, { fields: { ingest: 'false' } });
    }
  });

  const list = async (query = '', member = ada) =>
    documentListSchema.parse((await member.get(`/documents${query}`, 200)).body);

  it('200: pages through the documents, newest first', async () => {
    const first = await list('?limit=2');
    expect(first.items.map(({ name }) => name)).to.deep.equal(['three.txt', 'two.txt']);
    expect(first).to.include({ total: 3, total_pages: 2, has_more: true });
    const second = await list('?limit=2&offset=2');
    expect(second.items.map(({ name }) => name)).to.deep.equal(['one.txt']);
    expect(second).to.include({ total: 3, has_more: false });
  });

  it('200: lists one folder', async () => {
    const [folderId] = (await list()).items[0]?.folder_ids ?? [];
    expect((await list(`?folder_id=${folderId}`)).total).to.equal(3);
  });

  it('200: shows another member only documents that are shared with the organization', async () => {
    const root = await shared.container.db('folders').where({ orgId: ada.orgId, systemRole: 'org_root' }).first();
    const { body } = await ada.upload('/documents', { name: 'all.txt', content: 'all' }, 201, {
      fields: { target_folder_id: root.id, ingest: 'false' },
    });
    const grace = await aColleague(shared, ada);
    expect((await list('', grace)).items.map(({ id }) => id)).to.deep.equal([fullDocumentSchema.parse(body).id]);
  });

  it('200: shows nothing to another organization', async () => {
    expect((await list('', await shared.signUp('Eve'))).total).to.equal(0);
  });

  it('401: rejects a request without a token', async () => {
    await shared.anonymous.get('/documents', 401);
  });

  it('404: rejects a folder of another organization', async () => {
    const [folderId] = (await list()).items[0]?.folder_ids ?? [];
    await (await shared.signUp('Eve')).get(`/documents?folder_id=${folderId}`, 404);
  });

  it('422: rejects numbers out of range', async () => {
    for (const query of ['limit=0', 'limit=101', 'limit=x', 'offset=-1', 'folder_id=x', 'page=2']) {
      await ada.get(`/documents?${query}`, 422);
    }
  });
});
