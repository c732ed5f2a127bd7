import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import type { Member } from './client.ts';
import type { Stack } from './stack.ts';
import { until } from './until.ts';
import { untilRun } from './until-job.ts';

type Folder = { id: string; name: string; kind: string; system_role: string | null };
type Document = { id: string; name: string; folder_ids: string[]; content: string; embedding_job_id: string };

const page =
  '<html><head><title>Tides</title></head><body><article><p>The moon draws the sea.</p></article></body></html>';

/**
 * Goes once through every row of the contract's folders and documents, each answer held against its schema.
 * @param start the service, with these settings and those of the place where originals are stored
 */
export function itServesTheDataroom(
  start: (settings: Record<string, string>) => Promise<Pick<Stack, 'container' | 'signUp' | 'close'>>,
): void {
  let stack: Awaited<ReturnType<typeof start>>;
  let ada: Member;
  let web: Server;
  let personal: Folder;
  let shared: Folder;

  before(async () => {
    web = createServer((_, response) => {
      response.setHeader('content-type', 'text/html').end(page);
    }).listen(0, '127.0.0.1');
    await once(web, 'listening');
    stack = await start({ EGRESS_ALLOW: `127.0.0.1:${portOf(web)}` });
    ada = await stack.signUp('Ada');
    const roots = (await ada.get('/folders', 200)).body as Folder[];
    personal = roots.find(({ system_role }) => system_role === 'personal_root') as Folder;
    shared = roots.find(({ system_role }) => system_role === 'org_root') as Folder;
  });
  after(async () => {
    // There is neither where a suite around this one was skipped.
    web?.close();
    await stack?.close();
  });

  const newFolder = async (name: string, parent: Folder = personal) =>
    (await ada.post('/folders', { name, parent_id: parent.id }, 201)).body as Folder;
  const upload = async (name: string, content: string, fields: Record<string, string> = {}) => {
    const document = (await ada.upload('/documents', { name, content }, 201, { fields })).body as Document;
    await untilRun(ada, document.embedding_job_id, 'succeeded');
    return document;
  };
  const namesIn = async (folder: Folder) => {
    const { folders, documents } = Object((await ada.get(`/folders/${folder.id}`, 200)).body);
    return [...folders, ...documents].map(({ name }: { name: string }) => name);
  };
  const linksOf = async ({ id }: Document) =>
    Object((await ada.get(`/documents/${id}/links`, 200)).body).links.map(
      (link: { folder_id: string }) => link.folder_id,
    );

  it('makes, shows, renames and moves folders', async () => {
    const plans = await newFolder('Plans');
    const old = await newFolder('Old', plans);
    expect((await ada.get(`/folders/${old.id}/info`, 200)).body).include({ name: 'Old', kind: 'user' });
    expect(await namesIn(plans)).deep.equal(['Old']);
    await ada.patch(`/folders/${old.id}`, { name: 'Older' }, 200);
    await ada.patch(`/folders/${old.id}`, { parent_id: personal.id }, 200);
    expect(await namesIn(plans)).deep.equal([]);
    expect(await namesIn(personal)).include.members(['Older', 'Plans']);
  });

  it('deletes folders, with what is in them only when told to', async () => {
    const folder = await newFolder('To go');
    const { id } = await upload('note.txt', 'It goes with its folder.', { target_folder_id: folder.id });
    await ada.delete(`/folders/${folder.id}`, 409);
    await ada.delete(`/folders/${folder.id}?cascade=true`, 204);
    await ada.get(`/folders/${folder.id}/info`, 404);
    await ada.get(`/documents/${id}`, 404);
  });

  it('takes an upload, a text and a page of the web, and shows what became of them', async () => {
    const folder = await newFolder('Sources');
    const target_folder_id = folder.id;
    const uploaded = await upload('gravity.md', '# Gravity\n\nIt pulls.', { target_folder_id });
    const text = { name: 'Winds', content: 'Air moves.', source_format: 'text', target_folder_id };
    const pasted = (await ada.post('/documents/paste', text, 201)).body as Document;
    const url = `http://127.0.0.1:${portOf(web)}/tides`;
    const imported = (await ada.post('/documents/import-from-url', { url, target_folder_id }, 201)).body as Document;
    for (const { embedding_job_id } of [pasted, imported]) await untilRun(ada, embedding_job_id, 'succeeded');

    const read = async ({ id }: Document) => (await ada.get(`/documents/${id}`, 200)).body as Document;
    expect((await read(uploaded)).content).equal('# Gravity\n\nIt pulls.');
    expect((await read(pasted)).content).equal('Air moves.');
    expect((await read(imported)).content).match(/The moon draws the sea\./);
    expect(await read(imported)).include({ import_source_url: url, name: 'Tides' });
    const listed = Object((await ada.get(`/documents?folder_id=${folder.id}&limit=2`, 200)).body);
    expect(listed).include({ total: 3, total_pages: 2, has_more: true });
    const { items } = Object((await ada.get('/documents/recent?limit=3&mine=true', 200)).body);
    const newest = items.map(({ id }: Document) => id);
    expect(newest).have.members([uploaded.id, pasted.id, imported.id]);
    const found = Object((await ada.get('/documents/search?q=moon', 200)).body);
    expect(found.items.map(({ id }: Document) => id)).deep.equal([imported.id]);
  });

  it('gives the original back: whole, in part, and by an address that needs no token', async () => {
    const content = 'Every byte of it.';
    const { id } = await upload('bytes.txt', content);
    expect((await ada.get(`/documents/${id}/file`, 200)).body).equal(content);
    const part = await ada.raw(`/documents/${id}/file`, { headers: { range: 'bytes=6-9' } });
    expect([part.status, await part.text()]).deep.equal([206, 'byte']);
    const { url, expires_in } = Object((await ada.get(`/documents/${id}/download-url`, 200)).body);
    expect(expires_in).greaterThan(0);
    const signed = await fetch(url);
    expect([signed.status, await signed.text()]).deep.equal([200, content]);
    expect(signed.headers.get('content-disposition')).match(/bytes\.txt/);
  });

  it('renames, moves, replaces and cuts a document anew', async () => {
    const folder = await newFolder('Archive');
    const { id } = await upload('first.txt', 'The first words.');
    await ada.patch(`/documents/${id}`, { name: 'Second', target_folder_id: folder.id }, 200);
    expect(await namesIn(folder)).deep.equal(['Second']);
    const file = { name: 'second.txt', content: 'The second words. And more of them.' };
    const { body } = await ada.upload(`/documents/${id}`, file, 200, { method: 'PATCH' });
    await untilRun(ada, (body as Document).embedding_job_id, 'succeeded');
    expect((await ada.get(`/documents/${id}/file`, 200)).body).equal(file.content);
    await ada.patch(`/documents/${id}`, { target_tokens: 4, overlap_tokens: 0 }, 200);
    expect((await ada.get(`/documents/${id}`, 200)).body).include({ chunking_stale: true });
  });

  it('links a document to several folders, moves it by a link, and keeps its last one', async () => {
    const [here, there] = [await newFolder('Here'), await newFolder('There', shared)];
    const document = await upload('linked.txt', 'It is in several places.', { target_folder_id: here.id });
    await ada.post(`/documents/${document.id}/links`, { folder_id: there.id }, 201);
    expect(await linksOf(document)).have.members([here.id, there.id]);
    await ada.delete(`/documents/${document.id}/links/${here.id}`, 204);
    await ada.delete(`/documents/${document.id}/links/${there.id}`, 409);
    await ada.post(`/documents/${document.id}/links`, { folder_id: here.id, promote: true }, 201);
    expect(await linksOf(document)).deep.equal([here.id]);
  });

  it('shows chunks, where they stand, and how far they are', async () => {
    const { id } = await upload('chunks.txt', 'One. Two. Three.');
    const { items } = Object((await ada.get(`/documents/${id}/chunks`, 200)).body);
    const chunk = Object((await ada.get(`/documents/chunks/${items[0].id}`, 200)).body);
    expect(chunk).include({ document_id: id, content: 'One. Two. Three.', page_number: 1, content_offset: 0 });
    const cut = (await ada.get(`/documents/${id}/chunking-status`, 200)).body;
    expect(cut).include({ chunking_complete: true, chunk_count: 1 });
    const embedded = (await ada.get(`/documents/${id}/embedding-status`, 200)).body;
    expect(embedded).include({ embedding_complete: true, chunks_total: 1, chunks_embedded: 1 });
  });

  it('deletes a document, and its original with it', async () => {
    const { id } = await upload('gone.txt', `Nobody else has this: ${crypto.randomUUID()}`);
    const { blobKey } = await stack.container.db('documents').where({ id }).first('blobKey');
    expect(await stack.container.blobs.exists(blobKey)).equal(true);
    await ada.delete(`/documents/${id}`, 204);
    await ada.get(`/documents/${id}`, 404);
    await until('the original is gone', async () => !(await stack.container.blobs.exists(blobKey)));
  });
}

const portOf = (server: Server): number => (server.address() as AddressInfo).port;
