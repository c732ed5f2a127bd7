import { expect } from 'chai';
import type { Knex } from 'knex';
import { aFolder, rootOf, treesOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';

const ROUNDS = 8;

describe('concurrent changes of folders', () => {
  let own: Stack;
  let db: Knex;
  let ada: Member;
  let personal: string;
  let shared: string;
  before(async () => {
    own = await startStack({}, { workers: false });
    db = own.container.db;
    ada = await own.signUp();
    personal = await rootOf(ada, 'personal_root');
    shared = await rootOf(ada, 'org_root');
  });
  after(() => own.close());

  const json = { 'content-type': 'application/json' };
  const move = (id: string, parent_id: string) =>
    ada.raw(`/folders/${id}`, { method: 'PATCH', headers: json, body: JSON.stringify({ parent_id }) });
  const paste = (target_folder_id: string) =>
    ada.raw('/documents/paste', {
      method: 'POST',
      headers: json,
      body: JSON.stringify({ name: 'Note', content: 'Some words.', source_format: 'text', target_folder_id }),
    });
  const sorted = (answers: Response[]) => answers.map(({ status }) => status).sort();

  it('reject one of 16 concurrent moves that would form a cycle together', async () => {
    const ring = await Promise.all(Array.from({ length: 16 }, () => aFolder(ada, personal)));
    const answers = await Promise.all(ring.map(({ id }, index) => move(id, ring[(index + 1) % 16]?.id ?? '')));
    expect(sorted(answers)).deep.equal([...Array(15).fill(200), 409]);
    const names = JSON.stringify(await treesOf(ada));
    for (const { id } of ring) expect(names).contain(id);
  });

  it('give a document that is added during a move the access keys of the new root', async () => {
    const { id: folderId } = await aFolder(ada, personal);
    for (let round = 0; round < ROUNDS; round += 1) {
      const target = round % 2 === 0 ? shared : personal;
      const answers = await Promise.all([paste(folderId), move(folderId, target), paste(folderId)]);
      expect(sorted(answers)).deep.equal([200, 201, 201]);
      const folder = await db('folders').where({ id: folderId }).first('acl');
      const documents = await db('documents').whereIn('id', db('folderLinks').where({ folderId }).select('documentId'));
      expect(documents).length((round + 1) * 2);
      const keys = [...new Set([`user:${ada.userId}`, ...folder.acl])];
      for (const { acl } of documents) expect(acl).to.have.members(keys);
    }
  });

  it('give a document that waits for the lock of a moving folder the access keys of the new root', async () => {
    const { id: folderId } = await aFolder(ada, shared);
    const { id: firstId } = Object(await (await paste(folderId)).json());
    const waiting = (count: number) =>
      until(`${count} transactions wait for a lock`, async () => {
        const waits = db('pg_stat_activity').where({ waitEventType: 'Lock' }).whereRaw('datname = current_database()');
        return (await waits).length === count;
      });
    // The move has updated the folder when it waits for the lock of the document.
    const holder = await db.transaction();
    await holder('documents').where({ id: firstId }).forNoKeyUpdate().first('id');
    const moved = move(folderId, personal);
    await waiting(1);
    const pasted = paste(folderId);
    await waiting(2);
    await holder.commit();
    expect((await moved).status).equal(200);
    const { id } = Object(await (await pasted).json());
    for (const documentId of [firstId, id]) {
      expect((await db('documents').where({ id: documentId }).first('acl')).acl).deep.equal([`user:${ada.userId}`]);
    }
  });

  it('reject a document that is added to a folder during its deletion, or delete it with the folder', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const { id } = await aFolder(ada, personal);
      const remove = ada.raw(`/folders/${id}?cascade=true`, { method: 'DELETE' });
      const [first, removed, second] = await Promise.all([paste(id), remove, paste(id)]);
      expect(removed.status).equal(204);
      for (const answer of [first, second]) {
        const body = Object(await answer.json());
        if (answer.status === 404) expect(body.code).oneOf(['folder_not_found', 'document_not_found']);
        else await ada.get(`/documents/${body.id}`, 404);
      }
    }
    const { rows } = await db.raw(
      `select id from documents d where deleted_at is null and not exists (select from folder_links l where l.document_id = d.id)`,
    );
    expect(rows).deep.equal([]);
  });

  it('give a document that is moved and linked meanwhile the access keys of its final folders', async () => {
    const [one, two] = [await aFolder(ada, personal), await aFolder(ada, shared)];
    const { id } = Object(await (await paste(one.id)).json());
    const link = () =>
      ada.raw(`/documents/${id}/links`, { method: 'POST', headers: json, body: JSON.stringify({ folder_id: two.id }) });
    const unlink = () => ada.raw(`/documents/${id}/links/${two.id}`, { method: 'DELETE' });
    const moveDocument = (target_folder_id: string) =>
      ada.raw(`/documents/${id}`, { method: 'PATCH', headers: json, body: JSON.stringify({ target_folder_id }) });
    for (let round = 0; round < ROUNDS; round += 1) {
      const [here, there] = round % 2 === 0 ? [shared, personal] : [personal, shared];
      const asked = [move(one.id, here), link(), move(two.id, there), moveDocument(one.id), unlink(), link()];
      for (const { status } of await Promise.all(asked)) expect(status).oneOf([200, 201, 204, 404, 409]);
      const { acl } = await db('documents').where({ id }).first('acl');
      const folders = await db('folders').whereIn('id', db('folderLinks').where({ documentId: id }).select('folderId'));
      expect(acl).to.have.members([...new Set([`user:${ada.userId}`, ...folders.flatMap((folder) => folder.acl)])]);
    }
  });
});
