import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { exportedRecordKinds } from '#src/modules/exports/exported-records.ts';
import { runAdmin } from '#test/support/admin-command.ts';
import { uploadAvatar } from '#test/support/avatars.ts';
import {
  aColleague,
  anIngestedDocument,
  aPublishedAgent,
  aStoredConnection,
  ask,
  aTeam,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { recordsOf, sha256Of, unpack } from '#test/support/exported.ts';
import { gifOfFrames } from '#test/support/poison/images.ts';
import { membersAndRemains, remainsOfOrganization } from '#test/support/remaining-content.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { storeEvaluation } from '#test/support/stored-evaluation.ts';
import { until } from '#test/support/until.ts';

const LONG_MS = 120_000;

describe('npm run admin, for whole organizations', function () {
  this.timeout(LONG_MS * 2);
  let own: Stack;
  let ada: Member;
  let grace: Member;
  let folder: string;

  before(async () => {
    own = await startStack({}, { workers: 'all' });
    folder = await mkdtemp(join(tmpdir(), 'export-'));
  });
  after(async () => {
    await rm(folder, { recursive: true });
    await own.close();
  });
  beforeEach(async () => {
    ada = await own.signUp();
    grace = await aColleague(own, ada, 'Grace');
    for (const member of [ada, grace]) {
      await anIngestedDocument(member, 'Mine', `The fox of ${member.userId} is quick and brown.`);
      const agentId = await aPublishedAgent(member);
      await ask(member, { agent_id: agentId, message: 'How quick is a fox?' }, 201);
    }
  });
  const admin = (args: string[], input?: string) => runAdmin(own.settings, args, { ...(input && { input }) });

  it('exports everything into archives that other programs can unpack', async () => {
    const { db } = own.container;
    await aTeam(ada, [grace]);
    await uploadAvatar(grace, gifOfFrames(1), 200);
    await aStoredConnection(own, grace, 'Hers');
    await storeEvaluation(db, grace);
    const orgId = ada.orgId;
    const { stdout, stderr, code } = await admin(['export-organization', orgId, '--into', folder]);
    expect(code, stderr).equal(0);
    const names = await readdir(folder);
    const archives = await Promise.all(names.map((name) => readFile(join(folder, name))));
    expect(stdout).equal(archives.map((bytes, index) => `${sha256Of(bytes)}  ${names[index]}\n`).join(''));
    expect(stderr).contain('keep them safe');
    const program = spawnSync('python3', ['-m', 'zipfile', '-t', join(folder, names[0] ?? '')], { encoding: 'utf8' });
    expect(program.stdout).equal('Done testing\n');

    const files = await unpack(archives);
    const manifest = JSON.parse(String(files.get('manifest.json')));
    expect(manifest).include({ scope: 'everything', requested_by: null, org_id: orgId });
    for (const { name } of exportedRecordKinds) {
      expect(recordsOf(files, name).length, name).equal(manifest.records[name] ?? 0);
    }
    const count = async (table: string) => Number((await db(table).where({ orgId }).count({ count: '*' }))[0]?.count);
    for (const table of ['documents', 'folders', 'chats', 'rounds', 'agents', 'drafts', 'teams', 'connections']) {
      expect(manifest.records[table], table).equal(await count(table));
    }
    expect(manifest.records).include({ users: 2, avatars: 1, evaluations: 1, team_members: 1, sessions: 2 });
    const documents = recordsOf(files, 'documents');
    const texts = documents.map(({ original }) => String(files.get(Object(original).path)));
    expect(texts).members([ada, grace].map(({ userId }) => `The fox of ${userId} is quick and brown.`));
    const avatar = await db('avatars').where({ userId: grace.userId }).first();
    expect(recordsOf(files, 'avatars')[0]).include({
      base64: avatar.content.toString('base64'),
      sha256: avatar.sha256,
    });
    const { passwordHash } = await db('users').where({ id: ada.userId }).first();
    const { credentials } = await db('connections').where({ orgId }).first();
    const everything = [...files.values()].map(String).join('\n');
    expect(everything).not.contain(passwordHash).and.not.contain(credentials);
    const [entry] = await own.container.audit.list({ orgId, action: 'organization.exported' }, 1);
    expect(entry).include({ actorId: null, target: orgId });
  });

  it('refuses to erase without a repeated id, and an unknown organization', async () => {
    const asked = await admin(['erase-organization', ada.orgId], `${ada.userId}\n`);
    expect(asked).include({ code: 1 });
    expect(asked.stderr).contain('The id does not match: nothing was deleted.');
    const status = await admin(['erase-organization', ada.orgId, '--status']);
    expect(status).include({ code: 1 });
    expect(status.stdout).contain('is not deleted');
    const none = await admin(['erase-organization', ada.userId, '--yes']);
    expect(none).include({ code: 1 });
    expect(none.stderr).contain('There is no organization');
    const wrong = await admin(['erase-organization', ada.orgId, '--status', '--now']);
    expect(wrong).include({ code: 2 });
    expect(await admin(['export-organization', ada.orgId])).include({ code: 2 });
    await ada.get('/entity/me/membership', 200);
  });

  it('deletes an organization, and erases it at once with --now', async () => {
    const before = await membersAndRemains(own, ada.orgId);
    const deleted = await admin(['erase-organization', ada.orgId], `${ada.orgId}\n`);
    expect(deleted, deleted.stderr).include({ code: 0 });
    expect(deleted.stdout).match(/is deleted, and is erased from \d{4}-/);
    const isSignedOut = async () => (await ada.raw('/entity/me/membership')).status === 401;
    await until('she is signed out of a process that did not delete it', isSignedOut);
    const job = own.container.db('jobs').where({ id: `erase-${ada.orgId}` });
    await until('it waits for its day', async () => (await job.clone().first()).stage === 'wait');
    expect((await admin(['erase-organization', ada.orgId, '--status'])).stdout).contain('running, wait');
    expect((await admin(['erase-organization', ada.orgId, '--now', '--yes'])).code).equal(0);
    const left = () => remainsOfOrganization(own, ada.orgId, before.userIds);
    await until('nothing is left', async () => (await left()).length === 0);
    const status = await admin(['erase-organization', ada.orgId, '--status']);
    expect(status).include({ code: 0 });
    expect(status.stdout)
      .match(/^Erased at \d\S+: /)
      .and.contain('2 documents')
      .and.contain('2 chats');
    const again = await admin(['erase-organization', ada.orgId, '--now', '--yes']);
    expect(again.stdout).equal(status.stdout);
    const acts = await own.container.audit.list({ orgId: ada.orgId, action: 'organization' }, 10);
    expect(acts.map(({ action, actorId }) => [action, actorId])).deep.equal([
      ['organization.erased', null],
      ['organization.erasure_hurried', null],
      ['organization.deleted', null],
    ]);
  });
});
