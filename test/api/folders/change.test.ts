import { expect } from 'chai';
import type { Knex } from 'knex';
import { type FolderDto, type FolderTreeNodeDto, folderSchema } from '#src/modules/folders/folders.schema.ts';
import { aColleague, aDocumentIn, aFolder, aTeam, rootOf, treesOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('PATCH /folders/{folder_id}', () => {
  let own: Stack;
  let db: Knex;
  let ada: Member;
  let personal: string;
  let shared: string;
  before(async () => {
    // Workers would update the vector store and reset `points_outdated_at`.
    own = await startStack({}, { workers: false });
    db = own.container.db;
  });
  after(() => own.close());
  beforeEach(async () => {
    ada = await own.signUp();
    personal = await rootOf(ada, 'personal_root');
    shared = await rootOf(ada, 'org_root');
  });

  const change = async (id: string, fields: object, headers = {}): Promise<FolderDto> =>
    folderSchema.parse((await ada.patch(`/folders/${id}`, fields, 200, headers)).body);
  const refuse = async (id: string, fields: object, code: string, status = 409) =>
    expect((await ada.patch(`/folders/${id}`, fields, status)).body).include({ code });
  const documentOf = (id: string) => db('documents').where({ id }).first();

  it('200: renames a folder, also if only the case changes', async () => {
    const folder = await aFolder(ada, personal, 'Loans');
    const renamed = await change(folder.id, { name: 'LOANS' });
    expect(renamed).deep.equal({ ...folder, name: 'LOANS', updated_at: renamed.updated_at });
    expect(Date.parse(renamed.updated_at)).above(Date.parse(folder.updated_at));
    expect(await change(folder.id, { name: 'LOANS', parent_id: personal })).deep.equal(renamed);
  });

  it('200: moves a folder with its contents and renames it in the same request', async () => {
    const [from, to] = [await aFolder(ada, personal, 'From'), await aFolder(ada, personal, 'To')];
    const folder = await aFolder(ada, from.id, 'Loans');
    await aFolder(ada, from.id, 'Fees');
    await aFolder(ada, to.id, 'Loans');
    const documentId = await aDocumentIn(ada, folder.id);
    expect(await change(folder.id, { parent_id: to.id, name: 'Fees' })).include({ name: 'Fees' });
    const moved = (await treesOf(ada))
      .flatMap(function all(node: FolderTreeNodeDto): FolderTreeNodeDto[] {
        return [node, ...node.folders.flatMap(all)];
      })
      .find(({ id }) => id === to.id);
    expect(moved?.folders.map(({ name }) => name)).deep.equal(['Fees', 'Loans']);
    expect(moved?.folders[0]?.documents).deep.equal([{ id: documentId, name: 'note.txt' }]);
  });

  it('200: lets readers of the new root read the moved folder, its documents and their jobs', async () => {
    const grace = await aColleague(own, ada);
    const teamId = await aTeam(ada, [grace]);
    const teamRoot = await rootOf(ada, 'team_root');
    const folder = await aFolder(ada, personal);
    const inside = await aFolder(ada, folder.id);
    const [above, below] = [await aDocumentIn(ada, folder.id), await aDocumentIn(ada, inside.id)];
    await ada.post(`/rag/ingest/${below}`, {}, 200);
    await db('documents').where({ id: above }).update({ activeGeneration: 1 });
    await grace.get(`/folders/${inside.id}`, 404);

    expect(await change(folder.id, { parent_id: teamRoot })).include({ visibility: 'team_level' });
    expect((await grace.get(`/folders/${inside.id}/info`, 200)).body).include({ visibility: 'team_level' });
    for (const id of [above, below]) {
      await grace.get(`/documents/${id}`, 200);
      expect((await documentOf(id)).acl).deep.equal([`user:${ada.userId}`, `team:${teamId}`]);
    }
    await grace.get(`/jobs/ingest-${below}-1`, 200);
    expect((await documentOf(above)).pointsOutdatedAt).instanceOf(Date);
    expect((await documentOf(below)).pointsOutdatedAt).equal(null);

    await change(folder.id, { parent_id: personal });
    await grace.get(`/folders/${inside.id}`, 404);
    await grace.get(`/documents/${above}`, 404);
    await grace.get(`/jobs/ingest-${below}-1`, 404);
  });

  it('200: keeps the access keys that a document has from another folder', async () => {
    const grace = await aColleague(own, ada);
    const [folder, other] = [await aFolder(ada, shared), await aFolder(ada, shared)];
    const documentId = await aDocumentIn(ada, folder.id);
    await ada.post(`/documents/${documentId}/links`, { folder_id: other.id }, 201);
    await change(folder.id, { parent_id: personal });
    await grace.get(`/documents/${documentId}`, 200);
    await change(other.id, { parent_id: personal });
    await grace.get(`/documents/${documentId}`, 404);
  });

  it('200, 412: rejects the second change with the same If-Match', async () => {
    const folder = await aFolder(ada, personal);
    const etag = (await ada.get(`/folders/${folder.id}/info`, 200)).headers.get('etag') ?? '';
    await change(folder.id, { name: 'First' }, { 'if-match': etag });
    const { body } = await ada.patch(`/folders/${folder.id}`, { name: 'Second' }, 412, { 'if-match': etag });
    expect(body).include({ code: 'precondition_failed' });
  });

  it('401: without a token', async () => {
    await own.anonymous.patch(`/folders/${personal}`, { name: 'x' }, 401);
  });

  it('403: without write access to the folder or the new parent', async () => {
    const grace = await aColleague(own, ada);
    const folder = await aFolder(ada, shared);
    await grace.patch(`/folders/${folder.id}`, { name: 'Mine' }, 403);
    const ofGrace = await aFolder(grace, await rootOf(grace, 'personal_root'));
    await grace.patch(`/folders/${ofGrace.id}`, { parent_id: folder.id }, 403);
  });

  it('404: for a folder or parent that the caller cannot read, and for an invalid id', async () => {
    const [eve, grace] = [await own.signUp('Eve'), await aColleague(own, ada)];
    const folder = await aFolder(ada, personal);
    await eve.patch(`/folders/${folder.id}`, { name: 'Mine' }, 404);
    await grace.patch(`/folders/${folder.id}`, { name: 'Mine' }, 404);
    for (const id of ['..%2f', 'root', crypto.randomUUID()]) await refuse(id, { name: 'x' }, 'folder_not_found', 404);
    const strange = [await rootOf(eve, 'org_root'), await rootOf(grace, 'personal_root'), crypto.randomUUID()];
    for (const parent_id of strange) await refuse(folder.id, { parent_id }, 'folder_not_found', 404);
  });

  it('409: for a root folder', async () => {
    for (const root of [personal, shared]) await refuse(root, { name: 'Mine' }, 'system_folder');
    await refuse(personal, { parent_id: shared }, 'system_folder');
  });

  it('409: for a name that a sibling has, and changes nothing', async () => {
    const [loans, fees] = [await aFolder(ada, personal, 'Loans'), await aFolder(ada, personal, 'Fees')];
    await refuse(fees.id, { name: 'lOANS' }, 'name_taken');
    const inside = await aFolder(ada, loans.id, 'fees');
    await refuse(inside.id, { parent_id: personal }, 'name_taken');
    expect((await ada.get(`/folders/${inside.id}/info`, 200)).body).deep.equal(inside);
  });

  it('409: for a move of a folder below itself', async () => {
    const folder = await aFolder(ada, personal);
    const inside = await aFolder(ada, (await aFolder(ada, folder.id)).id);
    for (const parent_id of [folder.id, inside.id]) await refuse(folder.id, { parent_id }, 'folder_cycle');
  });

  it('409: for a move that would make more than 32 levels', async () => {
    const folder = await aFolder(ada, personal);
    await aFolder(ada, folder.id);
    let parent = personal;
    for (let level = 2; level <= 31; level += 1) parent = (await aFolder(ada, parent)).id;
    await refuse(folder.id, { parent_id: parent }, 'folder_too_deep');
  });

  it('422: without a field, and for invalid or unknown fields', async () => {
    const folder = await aFolder(ada, personal);
    const bad = [{}, { name: '' }, { name: 'a/b' }, { name: '..' }, { name: 'x'.repeat(256) }, { name: null }];
    for (const fields of [...bad, { parent_id: null }, { parent_id: 'x' }, { visibility: 'org_level' }]) {
      await refuse(folder.id, fields, 'validation_failed', 422);
    }
  });

  it('200: moves a folder with 1,501 documents, which takes several statements, and deletes it', async () => {
    const folder = await aFolder(ada, personal);
    await copyDocument(await aDocumentIn(ada, folder.id), 1_500);
    await change(folder.id, { parent_id: shared });
    const documents = () => db('documents').where({ orgId: ada.orgId });
    const keys = [`user:${ada.userId}`, `org:${ada.orgId}`];
    expect(await documents().where({ acl: keys })).length(1_501);
    await ada.delete(`/folders/${folder.id}?cascade=true`, 204);
    expect(await documents().whereNull('deletedAt')).length(0);
    expect(await db('jobs').where({ orgId: ada.orgId, kind: 'delete', status: 'queued', acl: keys })).length(1_501);
  });

  /** The copies are in the same folders as the document. */
  async function copyDocument(id: string, times: number): Promise<void> {
    await db.raw(
      `with copies as (
         insert into documents (id, org_id, name, file_name, size_bytes, content_sha256, blob_key, rag_config, acl, created_by, updated_by)
         select gen_random_uuid(), org_id, name || n, file_name, size_bytes, content_sha256, blob_key, rag_config, acl, created_by, updated_by
         from documents cross join generate_series(1, ?::integer) n where id = ?
         returning id, org_id, created_by
       )
       insert into folder_links (org_id, folder_id, document_id, created_by)
       select c.org_id, l.folder_id, c.id, c.created_by from copies c cross join folder_links l where l.document_id = ?`,
      [times, id, id],
    );
  }
});
