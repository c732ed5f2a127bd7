import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { exportListSchema, exportSchema } from '#src/modules/exports/exports.schema.ts';
import { organizationSchema } from '#src/modules/organization/organization.routes.ts';
import {
  aColleague,
  aFolder,
  anIngestedDocument,
  aPublishedAgent,
  aStoredConnection,
  ask,
  aTeam,
  rootOf,
  treesOf,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { downloaded, exportOf, recordsOf, sha256Of, unpack } from '#test/support/exported.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';

const path = '/entity/org/exports';

describe('an organization and its exports:', () => {
  let shared: Stack;
  let ada: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('PATCH /entity/org lets team admins add to the tree of the organization, and change what they made', async () => {
    const grace = await aColleague(shared, ada);
    const org_root = await rootOf(grace, 'org_root');
    const make = (status: number) => grace.post('/folders', { name: 'Laws', parent_id: org_root }, status);
    const open = async (team_admins_contribute: boolean) => {
      const { body } = await ada.patch('/entity/org', { team_admins_contribute }, 200);
      expect(organizationSchema.parse(body)).include({ team_admins_contribute });
      expect((await grace.get('/entity/me/membership', 200)).body).include({ team_admins_contribute });
    };
    const team = await aTeam(ada, [grace]);
    await open(true);
    await make(403);
    await ada.put(`/entity/teams/${team}/members/${grace.userId}`, { is_team_admin: true }, 200);
    const { id } = Object((await make(201)).body);
    await grace.patch(`/folders/${id}`, { name: 'Rules' }, 200);
    await grace.patch(`/folders/${(await aFolder(ada, org_root)).id}`, { name: 'Mine' }, 403);
    await open(false);
    await make(403);
    await grace.patch(`/folders/${id}`, { name: 'Laws' }, 403);
    const [entry] = await shared.container.audit.list({ orgId: ada.orgId, action: 'organization.settings_changed' }, 1);
    expect(entry).deep.include({ actorId: ada.userId, detail: { team_admins_contribute: false } });
  });

  it('PATCH /entity/org renames the organization and its root folder', async () => {
    const organization = organizationSchema.parse((await ada.patch('/entity/org', { name: ' Engines ' }, 200)).body);
    expect(organization).include({ org_id: ada.orgId, name: 'Engines', tier: 'free', is_org_admin: true });
    expect((await ada.get('/entity/me/membership', 200)).body).include({ org_name: 'Engines' });
    const root = (await treesOf(ada)).find(({ system_role }) => system_role === 'org_root');
    expect(root?.name).equal('Engines');
    const [entry] = await auditEntries(shared, ada.orgId);
    expect(entry).include({ actorId: ada.userId, action: 'organization.renamed' });
  });

  type Export = Awaited<ReturnType<typeof exportOf>>;
  const pathOf = ({ export_id }: Pick<Export, 'export_id'>) => `${path}/${export_id}`;
  const urlOf = ({ volumes }: Export) => volumes[0]?.download_url ?? '';
  const isStored = ({ volumes }: Export) => shared.container.blobs.exists(`${ada.orgId}/${volumes[0]?.sha256}`);

  const rows = () => shared.container.db('exports');

  it('POST /entity/org/exports exports what the admin may read into archives with download URLs', async () => {
    const grace = await aColleague(shared, ada, 'Grace');
    const own = await anIngestedDocument(ada, 'Loans', '# Loans\n\nA loan is repaid month by month.');
    const personal = await anIngestedDocument(grace, 'Diary', 'What Grace thinks of her loan.');
    const agentId = await aPublishedAgent(ada, { visibility: 'org_level' });
    const { chat_id } = await ask(ada, { agent_id: agentId, message: 'How is a loan repaid?' }, 201);
    await ask(grace, { agent_id: agentId, message: 'What do I think?' }, 201);
    await ask(grace, { agent_id: agentId, message: 'And in public?', visibility: 'org_level' }, 201);
    await aStoredConnection(shared, ada, 'Reports');
    await aStoredConnection(shared, grace, 'Hers');

    const made = await exportOf(ada);
    expect(made).include({ status: 'succeeded', created_by: ada.userId, last_error: null });
    expect(made.volumes.map(({ name }) => name)).deep.equal([`export-${made.export_id}-0001.zip`]);
    const files = await unpack(await downloaded(made.volumes));

    const manifest = JSON.parse(String(files.get('manifest.json')));
    expect(manifest).include({ version: 1, scope: 'readable', org_id: ada.orgId, requested_by: ada.userId });
    expect(manifest.records).include({ organization: 1, users: 2, documents: 1, agents: 1, chats: 2, rounds: 2 });
    expect(made.progress).include({ done: made.progress.total, unit: 'records' });
    const document = Object(recordsOf(files, 'documents')[0]);
    expect(document).include({ document_id: own, name: 'Loans' });
    expect(String(files.get(document.original.path))).equal('# Loans\n\nA loan is repaid month by month.');
    expect(String(files.get(document.text.path))).contain('A loan is repaid month by month.');
    const valuesOf = (kind: string, field: string) => recordsOf(files, kind).map((record) => record[field]);
    expect(valuesOf('rounds', 'user_content')).members(['How is a loan repaid?', 'And in public?']);
    expect(valuesOf('chats', 'chat_id')).include(chat_id);
    expect(valuesOf('connections', 'display_name')).deep.equal(['Reports']);
    for (const content of files.values()) expect(String(content)).not.contain(personal);

    const { files: told } = JSON.parse(String(files.get('manifests/0001.json')));
    expect(told).length(files.size - 2);
    for (const { path: name, sha256 } of told) expect(sha256Of(files.get(name) ?? Buffer.alloc(0)), name).equal(sha256);
    const [entry] = await auditEntries(shared, made.export_id);
    expect(entry).include({ actorId: ada.userId, action: 'organization.export_requested' });

    // Another admin sees the export, but gets no download URLs.
    await ada.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: true }, 200);
    const seen = exportSchema.parse((await grace.get(pathOf(made), 200)).body);
    expect(seen.volumes.map(({ download_url }) => download_url)).deep.equal([null]);
  });

  it('POST keeps the three newest exports, which GET lists newest first, in pages, and deletes the oldest', async () => {
    const [oldest, ...others] = [await exportOf(ada), await exportOf(ada), await exportOf(ada)] as const;
    const kept = [...others, await exportOf(ada)].reverse();
    const list = async (query: string) => exportListSchema.parse((await ada.get(`${path}?${query}`, 200)).body);
    const first = await list('limit=2');
    const rest = await list(`cursor=${first.next_cursor}`);
    const listed = [...first.items, ...rest.items].map(({ export_id }) => export_id);
    expect(listed).deep.equal(kept.map(({ export_id }) => export_id));
    expect(rest.next_cursor).equal(null);
    expect((await ada.get(`${path}?cursor=v1.x.y`, 400)).body).include({ code: 'invalid_cursor' });
    expect((await ada.get(pathOf(oldest), 404)).body).include({ code: 'export_not_found' });
    expect(await isStored(oldest)).equal(false);
  });

  it('POST /entity/org/exports replaces a failed export', async () => {
    const [failed, ofOther, other] = [uuidv7(), uuidv7(), await shared.signUp()];
    const expiresAt = new Date(Date.now() + 60_000);
    const rowOf = (id: string, { orgId, userId: createdBy }: Member) => ({ id, orgId, createdBy, expiresAt });
    await rows().insert([rowOf(failed, ada), rowOf(ofOther, other)]);
    const { export_id } = await exportOf(ada);
    await ada.get(`${path}/${failed}`, 404);
    await other.get(`${path}/${ofOther}`, 200);
    const [entry] = await auditEntries(shared, failed);
    expect(entry).deep.include({ action: 'organization.export_deleted', detail: { replaced_by: export_id } });
  });

  it('POST /entity/org/exports answers 409 while another export of the organization is running', async () => {
    const idle = await startStack({}, { workers: false });
    try {
      const member = await idle.signUp();
      const { export_id } = Object((await member.post(path, undefined, 202)).body);
      expect((await member.post(path, undefined, 409)).body).include({ code: 'export_running' });
      await member.delete(`${path}/${export_id}`, 204);
      await member.post(path, undefined, 202);
    } finally {
      await idle.close();
    }
  });

  it('a download URL serves ranges of the archive until the export and its files are deleted or expire', async () => {
    const [made, late] = [await exportOf(ada), await exportOf(ada)];
    const rangeOf = (range: string) => fetch(urlOf(made), { headers: { range } });
    const part = await rangeOf('bytes=0-1');
    expect([part.status, await part.text()]).deep.equal([206, 'PK']);
    expect((await rangeOf('bytes=1000000000-')).status).equal(416);
    expect((await shared.anonymous.get('/files/exports/x', 403)).body).include({ code: 'file_url_invalid' });
    await ada.delete(pathOf(made), 204);
    const [, entry] = await auditEntries(shared, made.export_id);
    expect(entry).include({ action: 'organization.export_deleted' });

    const expiresAt = new Date(Date.now() - 1_000);
    await rows().where({ id: late.export_id }).update({ expiresAt });
    expect((await fetch(urlOf(late))).status).equal(404);
    await shared.container.exports.deleteExpired();
    for (const gone of [made, late]) {
      await ada.get(pathOf(gone), 404);
      expect((await fetch(urlOf(gone))).status).equal(404);
      expect(await isStored(gone)).equal(false);
    }
  });
});
