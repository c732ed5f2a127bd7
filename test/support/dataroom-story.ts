import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { rootOf } from './builders.ts';
import type { Member } from './client.ts';
import type { Stack } from './stack.ts';
import { until } from './until.ts';
import { untilRun } from './until-job.ts';

type Folder = { id: string; name: string };
type Document = { id: string; content: string; embedding_job_id: string };

const page =
  '<html><head><title>Tides</title></head><body><article><p>The moon draws the sea.</p></article></body></html>';

/**
 * The life of folders and documents on a place where originals are stored.
 * @param start starts the service with these settings and those of the place
 */
export function itServesTheDataroom(
  start: (settings: Record<string, string>) => Promise<Pick<Stack, 'container' | 'signUp' | 'close'>>,
): void {
  let stack: Awaited<ReturnType<typeof start>>;
  let ada: Member;
  let web: Server;
  let host: string;
  let personal: string;

  before(async () => {
    web = createServer((_, response) => response.setHeader('content-type', 'text/html').end(page));
    await once(web.listen(0, '127.0.0.1'), 'listening');
    host = `127.0.0.1:${(web.address() as AddressInfo).port}`;
    stack = await start({ EGRESS_ALLOW: host });
    ada = await stack.signUp('Ada');
    personal = await rootOf(ada, 'personal_root');
  });
  after(async () => {
    // Undefined if the surrounding suite was skipped.
    web?.close();
    await stack?.close();
  });

  const newFolder = async (name: string, parent_id = personal) =>
    (await ada.post('/folders', { name, parent_id }, 201)).body as Folder;
  const ingested = async (body: unknown) => {
    await untilRun(ada, (body as Document).embedding_job_id, 'succeeded');
    return body as Document;
  };
  const upload = async (name: string, content: string, fields: Record<string, string> = {}) =>
    ingested((await ada.upload('/documents', { name, content }, 201, { fields })).body);
  const contentOf = async ({ id }: Document) => ((await ada.get(`/documents/${id}`, 200)).body as Document).content;
  const namesIn = async (folderId: string) => {
    const { folders, documents } = Object((await ada.get(`/folders/${folderId}`, 200)).body);
    return [...folders, ...documents].map(({ name }: { name: string }) => name);
  };

  it('makes, renames, moves and deletes folders, with their documents only when told to', async () => {
    const plans = await newFolder('Plans');
    const old = await newFolder('Old', plans.id);
    await ada.patch(`/folders/${old.id}`, { name: 'Older', parent_id: personal }, 200);
    expect(await namesIn(plans.id)).deep.equal([]);
    expect(await namesIn(personal)).include.members(['Older', 'Plans']);
    const { id } = await upload('note.txt', 'It goes with its folder.', { target_folder_id: plans.id });
    await ada.delete(`/folders/${plans.id}`, 409);
    await ada.delete(`/folders/${plans.id}?cascade=true`, 204);
    await ada.get(`/folders/${plans.id}/info`, 404);
    await ada.get(`/documents/${id}`, 404);
  });

  it('takes an upload, a text and a web page, lists them and finds their words', async () => {
    const { id: target_folder_id } = await newFolder('Sources');
    const uploaded = await upload('gravity.md', '# Gravity\n\nIt pulls.', { target_folder_id });
    const text = { name: 'Winds', content: 'Air moves.', source_format: 'text', target_folder_id };
    const pasted = await ingested((await ada.post('/documents/paste', text, 201)).body);
    const link = { url: `http://${host}/tides`, target_folder_id };
    const imported = await ingested((await ada.post('/documents/import-from-url', link, 201)).body);

    expect(await contentOf(uploaded)).equal('# Gravity\n\nIt pulls.');
    expect(await contentOf(pasted)).equal('Air moves.');
    expect(await contentOf(imported)).match(/The moon draws the sea\./);
    const listed = Object((await ada.get(`/documents?folder_id=${target_folder_id}&limit=2`, 200)).body);
    expect(listed).include({ total: 3, total_pages: 2, has_more: true });
    const found = Object((await ada.get('/documents/search?q=moon', 200)).body);
    expect(found.items.map(({ id }: Document) => id)).deep.equal([imported.id]);
    const { items } = Object((await ada.get(`/documents/${uploaded.id}/chunks`, 200)).body);
    expect((await ada.get(`/documents/chunks/${items[0].id}`, 200)).body).include({ document_id: uploaded.id });
  });

  it('serves the original: whole, in part, and by a signed URL', async () => {
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

  it('renames, moves, links, replaces and deletes a document, and its original with it', async () => {
    const [here, there] = [await newFolder('Here'), await newFolder('There')];
    const { id } = await upload('first.txt', 'The first words.');
    const path = `/documents/${id}`;
    await ada.patch(path, { name: 'Second', target_folder_id: here.id }, 200);
    await ada.post(`${path}/links`, { folder_id: there.id }, 201);
    expect([await namesIn(here.id), await namesIn(there.id)]).deep.equal([['Second'], ['Second']]);
    await ada.delete(`${path}/links/${here.id}`, 204);
    await ada.delete(`${path}/links/${there.id}`, 409);

    const file = { name: 'second.txt', content: `The second words. ${crypto.randomUUID()}` };
    await ingested((await ada.upload(path, file, 200, { method: 'PATCH' })).body);
    expect((await ada.get(`${path}/file`, 200)).body).equal(file.content);
    const { db, blobs } = stack.container;
    const { blobKey } = await db('documents').where({ id }).first('blobKey');
    expect(await blobs.exists(blobKey)).equal(true);
    await ada.delete(path, 204);
    await ada.get(path, 404);
    await until('the original is deleted', async () => !(await blobs.exists(blobKey)));
  });
}
