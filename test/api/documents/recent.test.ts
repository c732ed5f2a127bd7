import { expect } from 'chai';
import { documentListSchema, fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { folderTreeNodeSchema } from '#src/modules/folders/folders.schema.ts';
import { aColleague } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('GET /documents/recent', () => {
  let shared: Stack;
  let ada: Member;
  let grace: Member;
  let first: string;
  before(async () => {
    shared = await stack();
    ada = await shared.signUp();
    grace = await aColleague(shared, ada);
    const folders = folderTreeNodeSchema.array().parse((await ada.get('/folders', 200)).body);
    const everybodys = folders.find((folder) => folder.system_role === 'org_root')?.id ?? '';
    first = await upload('first.txt', everybodys);
    await upload('private.txt');
    await upload('second.txt', everybodys);
    await upload('hers.txt', undefined, grace);
    await ada.patch(`/documents/${first}`, { name: 'changed.txt' }, 200);
  });

  async function upload(name: string, folderId?: string, member = ada): Promise<string> {
    const fields = { ingest: 'false', ...(folderId !== undefined && { target_folder_id: folderId }) };
    const { body } = await member.upload('/documents', { name, content: name }, 201, { fields });
    return fullDocumentSchema.parse(body).id;
  }
  const recent = async (query = '', member = ada) =>
    documentListSchema.parse((await member.get(`/documents/recent${query}`, 200)).body);
  const names = async (query = '', member = ada) => (await recent(query, member)).items.map(({ name }) => name);

  it('200: lists what the caller may read, newest change first', async () => {
    expect(await names()).deep.equal(['changed.txt', 'second.txt', 'private.txt']);
    expect(await names('', grace)).deep.equal(['changed.txt', 'hers.txt', 'second.txt']);
    expect(await names('', await shared.signUp('Eve'))).deep.equal([]);
  });

  it('200: counts all documents, whatever the limit', async () => {
    const page = await recent('?limit=2');
    expect(page.items.map(({ name }) => name)).deep.equal(['changed.txt', 'second.txt']);
    expect(page).include({ total: 3, total_pages: 2, has_more: true });
  });

  it('200: lists only documents that the caller has created', async () => {
    expect(await names('?mine=true', grace)).deep.equal(['hers.txt']);
    expect(await recent('?mine=true', grace)).include({ total: 1, has_more: false });
    expect(await recent('?mine=false', grace)).include({ total: 3 });
    expect(await recent('?mine=true')).include({ total: 3 });
  });

  it('200: omits deleted documents', async () => {
    const id = await upload('gone.txt');
    expect(await recent('?mine=true')).include({ total: 4 });
    await ada.delete(`/documents/${id}`, 204);
    expect(await names()).not.include('gone.txt');
    expect(await recent('?mine=true')).include({ total: 3 });
  });

  it('401: rejects a request without a token', async () => {
    await shared.anonymous.get('/documents/recent', 401);
  });

  it('422: rejects values out of range', async () => {
    for (const query of ['limit=0', 'limit=32', 'limit=x', 'mine=perhaps', 'offset=1']) {
      await ada.get(`/documents/recent?${query}`, 422);
    }
  });
});
