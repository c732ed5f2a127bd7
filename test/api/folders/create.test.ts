import { expect } from 'chai';
import { folderSchema } from '#src/modules/folders/folders.schema.ts';
import { aColleague, aFolder, aTeam, rootOf, treesOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type Stack, stack } from '#test/support/stack.ts';

describe('POST /folders', () => {
  let shared: Stack;
  let ada: Member;
  let root: string;
  before(async () => {
    shared = await stack();
  });
  beforeEach(async () => {
    ada = await shared.signUp();
    root = await rootOf(ada, 'personal_root');
  });

  it('201: creates a folder with the visibility of its root, and shows it in the tree', async () => {
    const folder = await aFolder(ada, root, '  Loans ');
    expect(folder).include({
      ...{ name: 'Loans', kind: 'user', system_role: null, visibility: 'personal' },
      ...{ can_write: true, entity_missing: false },
    });
    const inside = await aFolder(ada, folder.id, 'Old');
    const personal = (await treesOf(ada)).find(({ id }) => id === root);
    expect(personal?.folders.map(({ id }) => id)).deep.equal([folder.id]);
    expect(personal?.folders[0]?.folders.map(({ id }) => id)).deep.equal([inside.id]);
    expect(folderSchema.parse((await ada.get(`/folders/${inside.id}/info`, 200)).body)).deep.equal(inside);
  });

  it('201: lets team members read a folder that an admin created in the team root', async () => {
    const grace = await aColleague(shared, ada);
    await aTeam(ada, [grace]);
    const teamRoot = await rootOf(grace, 'team_root');
    const { id } = await aFolder(ada, teamRoot);
    expect((await grace.get(`/folders/${id}/info`, 200)).body).include({ visibility: 'team_level', can_write: false });
  });

  it('201: creates one folder for repeated requests with the same Idempotency-Key', async () => {
    const headers = { 'idempotency-key': crypto.randomUUID() };
    const body = { name: 'Loans', parent_id: root };
    const [first, second] = [
      await ada.post('/folders', body, 201, headers),
      await ada.post('/folders', body, 201, headers),
    ];
    expect(second.body).deep.equal(first.body);
  });

  it('401: without a token', async () => {
    await shared.anonymous.post('/folders', { name: 'Loans', parent_id: root }, 401);
  });

  it('403: without write access to the parent', async () => {
    const grace = await aColleague(shared, ada);
    const orgRoot = await rootOf(grace, 'org_root');
    await grace.post('/folders', { name: 'Loans', parent_id: orgRoot }, 403);
    await ada.post('/folders', { name: 'Loans', parent_id: orgRoot }, 201);
  });

  it('404: for a parent of another organization, of another user, and one that does not exist', async () => {
    const [eve, grace] = [await shared.signUp('Eve'), await aColleague(shared, ada)];
    const strange = [await rootOf(eve, 'org_root'), await rootOf(grace, 'personal_root'), crypto.randomUUID()];
    for (const parent_id of strange) {
      expect((await ada.post('/folders', { name: 'Loans', parent_id }, 404)).body).include({
        code: 'folder_not_found',
      });
    }
  });

  it('409: for a name that a sibling has, regardless of case and Unicode normalization', async () => {
    await aFolder(ada, root, 'Café');
    for (const name of ['Café', 'CAFÉ', 'Cafe\u0301', ' café ']) {
      const { body } = await ada.post('/folders', { name, parent_id: root }, 409);
      expect(body).include({ code: 'name_taken' });
    }
    await aFolder(ada, await rootOf(ada, 'org_root'), 'Café');
  });

  it('409: for all but one of concurrent requests with the same name', async () => {
    const names = ['Loans', 'LOANS', 'loans', 'lOANS'];
    const asked = names.map((name) =>
      ada.raw('/folders', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ name, parent_id: root }),
      }),
    );
    expect((await Promise.all(asked)).map(({ status }) => status).sort()).deep.equal([201, 409, 409, 409]);
  });

  it('409: for a folder on level 33', async () => {
    let parent = root;
    for (let level = 2; level <= 32; level += 1) parent = (await aFolder(ada, parent)).id;
    const { body } = await ada.post('/folders', { name: 'Deeper', parent_id: parent }, 409);
    expect(body).include({ code: 'folder_too_deep' });
    await ada.get('/folders', 200);
  });

  it('409: for folder 10,001 of an organization', async () => {
    const { db } = shared.container;
    await db.raw(
      `insert into folders (id, org_id, parent_id, root_id, name, kind, visibility, owner_id, acl, created_by)
       select gen_random_uuid(), org_id, id, id, 'Folder ' || n, 'user', visibility, owner_id, acl, created_by
       from folders cross join generate_series(1, 9999) n where id = ?`,
      [root],
    );
    await aFolder(ada, root, 'The last');
    const { body } = await ada.post('/folders', { name: 'One more', parent_id: root }, 409);
    expect(body).include({ code: 'folder_limit_reached' });
    const personal = (await treesOf(ada)).find(({ id }) => id === root);
    expect(personal?.folders).length(10_000);
  });

  it('422: for an invalid name or parent, and unknown fields', async () => {
    const bad = {
      name: [
        '',
        '   ',
        '\u200b',
        '.',
        '..',
        ' .. ',
        'a/b',
        'a\\b',
        'a\nb',
        'a\tb',
        'a\0b',
        'x'.repeat(256),
        'x'.repeat(1_000),
        5,
        null,
        '\u202eabc',
      ],
      parent_id: ['', 'root', '..', 5, null],
    };
    for (const [field, values] of Object.entries(bad)) {
      for (const value of values) {
        const { body } = await ada.post('/folders', { name: 'Loans', parent_id: root, [field]: value }, 422);
        expect(Object(body).errors[0].path, JSON.stringify(value)).equal(field);
      }
    }
    await ada.post('/folders', { name: 'Loans' }, 422);
    await ada.post('/folders', { name: 'Loans', parent_id: root, visibility: 'org_level' }, 422);
    await aFolder(ada, root, `…${'x'.repeat(254)}`);
  });
});
