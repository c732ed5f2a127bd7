import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { exportListSchema, exportSchema } from '#src/modules/exports/exports.schema.ts';
import { organizationSchema } from '#src/modules/organization/organization.routes.ts';
import {
  aColleague,
  anIngestedDocument,
  aPublishedAgent,
  aStoredConnection,
  ask,
  treesOf,
} from '#test/support/builders.ts';
import { type Member, sendJson, statusesOf } from '#test/support/client.ts';
import { downloaded, exportOf, recordsOf, sha256Of, unpack } from '#test/support/exported.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { auditEntries } from '#test/support/stored-rows.ts';
import { untilJob } from '#test/support/until-job.ts';

const path = '/entity/org/exports';

describe('an organization and its exports:', () => {
  let shared: Stack;
  let ada: Member;
  beforeEach(async () => {
    shared = await stack();
    ada = await shared.signUp();
  });

  it('PATCH /entity/org renames the organization and its root folder', async () => {
    const organization = organizationSchema.parse((await ada.patch('/entity/org', { name: ' Engines ' }, 200)).body);
    expect(organization).deep.equal({ org_id: ada.orgId, name: 'Engines', tier: 'free', is_org_admin: true });
    expect((await ada.get('/entity/me/membership', 200)).body).include({ org_name: 'Engines' });
    const root = (await treesOf(ada)).find(({ system_role }) => system_role === 'org_root');
    expect(root?.name).equal('Engines');
    const [entry] = await auditEntries(shared, ada.orgId);
    expect(entry).include({ actorId: ada.userId, action: 'organization.renamed' });
  });

  it('DELETE /entity/org ends all accounts and sessions, of disabled members too, and frees their emails', async () => {
    const [grace, away, eve] = [await aColleague(shared, ada), await aColleague(shared, ada), await shared.signUp()];
    await ada.post(`/entity/users/${away.userId}/disable`, {}, 204);
    const requests = Array.from({ length: 8 }, () => sendJson(ada, 'DELETE', '/entity/org'));
    expect(await statusesOf(requests)).deep.equal([204, ...Array(7).fill(401)]);
    for (const { get, email, password, refreshToken } of [ada, grace, away]) {
      await get('/folders', 401);
      await shared.anonymous.post('/auth/refresh_tokens', { refresh_token: refreshToken }, 401);
      await shared.anonymous.post('/auth/login', { username: email, password }, 401);
      await shared.anonymous.post('/auth/register', { email, password }, 201);
    }
    const entry = { actorId: ada.userId, action: 'organization.deleted', detail: { members: 3 } };
    expect((await auditEntries(shared, ada.orgId)).at(-1)).deep.include(entry);
    await eve.get('/folders', 200);
  });

  type Export = Awaited<ReturnType<typeof exportOf>>;
  const pathOf = ({ export_id }: Pick<Export, 'export_id'>) => `${path}/${export_id}`;
  const urlOf = ({ volumes }: Export) => volumes[0]?.download_url ?? '';
  const isStored = ({ volumes }: Export) => shared.container.blobs.exists(`${ada.orgId}/${volumes[0]?.sha256}`);

  /** Creates an export whose job no worker runs. */
  async function insertExport(member: Member, columns: Record<string, unknown> = {}): Promise<string> {
    const id = uuidv7();
    const row = { id, orgId: member.orgId, createdBy: member.userId, expiresAt: new Date(Date.now() + 60_000) };
    await shared.container.db('exports').insert({ ...row, ...columns });
    return id;
  }

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
    expect(document.original.sha256).equal(document.sha256);
    expect(String(files.get(document.text.path))).contain('A loan is repaid month by month.');
    const valuesOf = (kind: string, field: string) => recordsOf(files, kind).map((record) => record[field]);
    expect(valuesOf('rounds', 'user_content')).members(['How is a loan repaid?', 'And in public?']);
    expect(valuesOf('chats', 'chat_id')).include(chat_id);
    expect(valuesOf('connections', 'display_name')).deep.equal(['Reports']);
    const everything = [...files.values()].map(String).join('\n');
    expect(everything)
      .not.contain(personal)
      .and.not.match(/\$argon2|password_hash|credentials"/);

    const { files: told } = JSON.parse(String(files.get('manifests/0001.json')));
    for (const { path: name, bytes, sha256 } of told) {
      const content = files.get(name) ?? Buffer.alloc(0);
      expect({ name, bytes: content.length, sha256: sha256Of(content) }).deep.equal({ name, bytes, sha256 });
    }
    expect(told).length(files.size - 2);
    const [entry] = await auditEntries(shared, made.export_id);
    expect(entry).include({ actorId: ada.userId, action: 'organization.export_requested' });

    // Another admin sees the export, but gets no download URLs.
    await ada.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: true }, 200);
    const seen = exportSchema.parse((await grace.get(pathOf(made), 200)).body);
    expect(seen.volumes.map(({ download_url }) => download_url)).deep.equal([null]);
  });

  it('POST /entity/org/exports keeps the three newest exports, and deletes the oldest with its files', async () => {
    const [oldest, ...others] = [await exportOf(ada), await exportOf(ada), await exportOf(ada)] as const;
    const newest = await exportOf(ada);
    const { items } = exportListSchema.parse((await ada.get(path, 200)).body);
    const kept = [...others, newest].map(({ export_id }) => export_id);
    expect(items.map(({ export_id }) => export_id)).have.members(kept);
    expect((await ada.get(pathOf(oldest), 404)).body).include({ code: 'export_not_found' });
    expect(await isStored(oldest)).equal(false);
  });

  it('POST /entity/org/exports replaces a failed export', async () => {
    const failed = await insertExport(ada);
    const other = await shared.signUp();
    const ofOther = await insertExport(other);
    const { export_id } = Object((await ada.post(path, undefined, 202)).body);
    await ada.get(`${path}/${failed}`, 404);
    await other.get(`${path}/${ofOther}`, 200);
    const [entry] = await auditEntries(shared, failed);
    expect(entry).deep.include({ action: 'organization.export_deleted', detail: { replaced_by: export_id } });
  });

  it('POST /entity/org/exports answers 409 while another export of the organization is running', async () => {
    const exportId = await insertExport(ada);
    const job = { kind: 'export', orgId: ada.orgId, createdBy: ada.userId, acl: [`admins:${ada.orgId}`] };
    const start = { workflow: 'exportOrganization', input: { orgId: ada.orgId, exportId }, summary: '' };
    const held = { dispatchAfter: new Date(Date.now() + 3_600_000), start: JSON.stringify(start) };
    await shared.container.db('jobs').insert({ ...job, ...held, id: `export-${exportId}`, status: 'queued' });
    expect((await ada.post(path, undefined, 409)).body).include({ code: 'export_running' });
    await ada.delete(`${path}/${exportId}`, 204);
    const { job_id } = Object((await ada.post(path, undefined, 202)).body);
    await untilJob(ada, job_id, 'succeeded');
  });

  it('GET /entity/org/exports lists exports newest first, in pages', async () => {
    const ids = [];
    for (const minute of [3, 2, 1]) {
      ids.unshift(await insertExport(ada, { createdAt: new Date(Date.now() - minute * 60_000) }));
    }
    const first = exportListSchema.parse((await ada.get(`${path}?limit=2`, 200)).body);
    const rest = exportListSchema.parse((await ada.get(`${path}?cursor=${first.next_cursor}`, 200)).body);
    expect([...first.items, ...rest.items].map(({ export_id }) => export_id)).deep.equal(ids);
    expect(rest.next_cursor).equal(null);
    expect((await ada.get(`${path}?cursor=v1.x.y`, 400)).body).include({ code: 'invalid_cursor' });
  });

  it('a download URL serves ranges of the archive until the export and its files are deleted', async () => {
    const made = await exportOf(ada);
    const rangeOf = (range: string) => fetch(urlOf(made), { headers: { range } });
    const part = await rangeOf('bytes=0-1');
    expect([part.status, await part.text()]).deep.equal([206, 'PK']);
    expect((await rangeOf('bytes=1000000000-')).status).equal(416);
    expect((await shared.anonymous.get('/files/exports/x', 403)).body).include({ code: 'file_url_invalid' });
    await ada.delete(pathOf(made), 204);
    await ada.get(pathOf(made), 404);
    expect((await fetch(urlOf(made))).status).equal(404);
    expect(await isStored(made)).equal(false);
    const [, entry] = await auditEntries(shared, made.export_id);
    expect(entry).include({ action: 'organization.export_deleted' });
  });

  it('a download URL ends when the export expires, which the sweeper then deletes', async () => {
    const made = await exportOf(ada);
    const { db, exports } = shared.container;
    const expiresAt = new Date(Date.now() - 1_000);
    await db('exports').where({ id: made.export_id }).update({ expiresAt });
    expect((await fetch(urlOf(made))).status).equal(404);
    await exports.deleteExpired();
    await ada.get(pathOf(made), 404);
    expect(await isStored(made)).equal(false);
  });
});
