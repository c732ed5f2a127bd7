import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { exportListSchema, exportSchema } from '#src/modules/exports/exports.schema.ts';
import { auditEntries } from '#test/support/audit-entries.ts';
import { aColleague, anIngestedDocument, aPublishedAgent, aStoredConnection, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { downloaded, exportOf, recordsOf, sha256Of, unpack } from '#test/support/exported.ts';
import { type Stack, stack } from '#test/support/stack.ts';
import { untilJob } from '#test/support/until-job.ts';

const path = '/entity/org/exports';

describe('exports of an organization', () => {
  let shared: Stack;
  let ada: Member;

  before(async () => {
    shared = await stack();
  });
  beforeEach(async () => {
    ada = await shared.signUp();
  });

  /** Creates an export whose job no worker runs. */
  async function insertExport(member: Member, columns: Record<string, unknown> = {}): Promise<string> {
    const id = uuidv7();
    const row = { id, orgId: member.orgId, createdBy: member.userId, expiresAt: new Date(Date.now() + 60_000) };
    await shared.container.db('exports').insert({ ...row, ...columns });
    return id;
  }

  describe('POST /entity/org/exports', () => {
    it('202: exports what the admin may read into archives that their URLs download', async () => {
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
      const [document] = recordsOf(files, 'documents');
      expect(document).include({ document_id: own, name: 'Loans' });
      const [{ original, text }] = [Object(document)];
      expect(String(files.get(original.path))).equal('# Loans\n\nA loan is repaid month by month.');
      expect(original.sha256).equal(Object(document).sha256);
      expect(String(files.get(text.path))).contain('A loan is repaid month by month.');
      const rounds = recordsOf(files, 'rounds');
      expect(rounds.map(({ user_content }) => user_content)).members(['How is a loan repaid?', 'And in public?']);
      expect(recordsOf(files, 'chats').map((chat) => chat.chat_id)).include(chat_id);
      expect(recordsOf(files, 'connections').map(({ display_name }) => display_name)).deep.equal(['Reports']);
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
    });

    it('202: repeats the response for the same Idempotency-Key', async () => {
      const key = { 'idempotency-key': crypto.randomUUID() };
      const first = await ada.post(path, undefined, 202, key);
      expect((await ada.post(path, undefined, 202, key)).body).deep.equal(first.body);
      await untilJob(ada, Object(first.body).job_id, 'succeeded');
    });

    it('202: keeps the three newest exports; a new complete one deletes the oldest with its files', async () => {
      const [oldest, ...others] = [await exportOf(ada), await exportOf(ada), await exportOf(ada)];
      const newest = await exportOf(ada);
      const { items } = exportListSchema.parse((await ada.get(path, 200)).body);
      const kept = [...others, newest].map(({ export_id }) => export_id);
      expect(items.map(({ export_id }) => export_id)).have.members(kept);
      await ada.get(`${path}/${oldest?.export_id}`, 404);
      expect(await shared.container.blobs.exists(`${ada.orgId}/${oldest?.volumes[0]?.sha256}`)).equal(false);
    });

    it('202: replaces a failed export', async () => {
      const failed = await insertExport(ada);
      const other = await insertExport(await shared.signUp());
      const { export_id } = Object((await ada.post(path, undefined, 202)).body);
      await ada.get(`${path}/${failed}`, 404);
      expect(await shared.container.db('exports').where({ id: other })).length(1);
      const [entry] = await auditEntries(shared, failed);
      expect(entry).deep.include({ action: 'organization.export_deleted', detail: { replaced_by: export_id } });
    });

    it('401: without a token', async () => {
      await shared.anonymous.post(path, undefined, 401);
    });

    it('403: for a member who is not an admin', async () => {
      const grace = await aColleague(shared, ada);
      expect((await grace.post(path, undefined, 403)).body).include({ code: 'forbidden' });
    });

    it('409: while another export of the organization is running', async () => {
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
  });

  describe('GET /entity/org/exports', () => {
    it('200: lists exports newest first, in pages', async () => {
      const ids = [];
      for (const minute of [3, 2, 1]) {
        ids.unshift(await insertExport(ada, { createdAt: new Date(Date.now() - minute * 60_000) }));
      }
      const first = exportListSchema.parse((await ada.get(`${path}?limit=2`, 200)).body);
      const rest = exportListSchema.parse((await ada.get(`${path}?cursor=${first.next_cursor}`, 200)).body);
      expect([...first.items, ...rest.items].map(({ export_id }) => export_id)).deep.equal(ids);
      expect(rest.next_cursor).equal(null);
    });

    it('400: rejects a cursor of another list', async () => {
      expect((await ada.get(`${path}?cursor=v1.x.y`, 400)).body).include({ code: 'invalid_cursor' });
    });

    it('401: without a token', async () => {
      await shared.anonymous.get(path, 401);
    });

    it('403: for a member who is not an admin', async () => {
      const grace = await aColleague(shared, ada);
      await grace.get(path, 403);
    });

    it('422: rejects an unknown query parameter', async () => {
      await ada.get(`${path}?limit=0`, 422);
    });
  });

  describe('GET /entity/org/exports/{export_id}', () => {
    it('200: gives another admin no download URLs', async () => {
      const grace = await aColleague(shared, ada, 'Grace');
      await ada.patch(`/entity/members/${grace.userId}/org-admin`, { is_org_admin: true }, 200);
      const { export_id } = await exportOf(ada);
      const seen = exportSchema.parse((await grace.get(`${path}/${export_id}`, 200)).body);
      expect(seen.volumes.map(({ download_url }) => download_url)).deep.equal([null]);
    });

    it('401: without a token', async () => {
      await shared.anonymous.get(`${path}/${uuidv7()}`, 401);
    });

    it('403: for a member who is not an admin', async () => {
      const grace = await aColleague(shared, ada);
      await grace.get(`${path}/${await insertExport(ada)}`, 403);
    });

    it('404: for an export of another organization and an unknown one', async () => {
      const other = await shared.signUp();
      for (const id of [await insertExport(other), uuidv7(), 'x']) {
        expect((await ada.get(`${path}/${id}`, 404)).body).include({ code: 'export_not_found' });
      }
    });
  });

  describe('DELETE /entity/org/exports/{export_id}', () => {
    it('204: deletes the export with its files, whose URLs stop working', async () => {
      const made = await exportOf(ada);
      await ada.delete(`${path}/${made.export_id}`, 204);
      await ada.get(`${path}/${made.export_id}`, 404);
      const [volume] = made.volumes;
      expect((await fetch(volume?.download_url ?? '')).status).equal(404);
      const kept = await shared.container.blobs.exists(`${ada.orgId}/${volume?.sha256}`);
      expect(kept).equal(false);
      expect((await auditEntries(shared, made.export_id)).map(({ action }) => action)).deep.equal([
        'organization.export_requested',
        'organization.export_deleted',
      ]);
    });

    it('401: without a token', async () => {
      await shared.anonymous.delete(`${path}/${uuidv7()}`, 401);
    });

    it('403: for a member who is not an admin', async () => {
      const grace = await aColleague(shared, ada);
      await grace.delete(`${path}/${await insertExport(ada)}`, 403);
    });

    it('404: for an export of another organization, which stays', async () => {
      const other = await shared.signUp();
      const id = await insertExport(other);
      await ada.delete(`${path}/${id}`, 404);
      await other.get(`${path}/${id}`, 200);
    });
  });

  describe('GET /files/exports', () => {
    it('206: returns a part of an archive', async () => {
      const [volume] = (await exportOf(ada)).volumes;
      const response = await fetch(volume?.download_url ?? '', { headers: { range: 'bytes=0-1' } });
      expect(response.status).equal(206);
      expect(await response.text()).equal('PK');
    });

    it('416: for a range after the end of the archive', async () => {
      const [volume] = (await exportOf(ada)).volumes;
      const response = await fetch(volume?.download_url ?? '', { headers: { range: 'bytes=1000000000-' } });
      expect(response.status).equal(416);
    });

    it('403: rejects a token with a wrong signature', async () => {
      expect((await shared.anonymous.get('/files/exports/x', 403)).body).include({ code: 'file_url_invalid' });
    });

    it('404: once the export has expired; the sweeper deletes it', async () => {
      const made = await exportOf(ada);
      const { db, exports } = shared.container;
      await db('exports')
        .where({ id: made.export_id })
        .update({ expiresAt: new Date(Date.now() - 1_000) });
      expect((await fetch(made.volumes[0]?.download_url ?? '')).status).equal(404);
      await exports.deleteExpired();
      await ada.get(`${path}/${made.export_id}`, 404);
      expect(await shared.container.blobs.exists(`${ada.orgId}/${made.volumes[0]?.sha256}`)).equal(false);
    });
  });
});
