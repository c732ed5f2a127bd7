import { spawnSync } from 'node:child_process';
import { mkdtemp, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { auditWorkflowId } from '#src/contracts/workflow-ids.ts';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import { exportedRecordKinds } from '#src/modules/exports/exported-records.ts';
import { runAdmin } from '#test/support/admin-command.ts';
import {
  aColleague,
  anIngestedDocument,
  anUpload,
  aPublishedAgent,
  aStoredConnection,
  ask,
  aTeam,
} from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { recordsOf, sha256Of, unpack } from '#test/support/exported.ts';
import { gifOfFrames, uploadAvatar } from '#test/support/images.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { storeEvaluation } from '#test/support/stored-rows.ts';
import { membersAndRemains, remainsOfOrganization } from '#test/support/stores.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';
import { startWorkers } from '#workers/run.ts';

describe('npm run admin', function () {
  this.timeout(240_000);
  let own: Stack;
  let ada: Member;

  before(async () => {
    own = await startStack({}, { workers: 'all' });
    ada = await own.signUp();
  });
  after(() => own.close());

  const admin = (...args: string[]) => runAdmin(own.settings, args);

  it('lists the commands, and refuses a wrong command with one line', async () => {
    const { stdout, code } = await admin();
    expect(stdout).include('verify').include('audit-stores [--repair');
    expect(code).equal(0);
    const wrong: [says: RegExp, ...args: string[]][] = [
      [/^There is no command "delete": [^\n]+\n$/, 'delete'],
      [/^Unexpected arguments "--repair": [^\n]+\n$/, 'verify', '--repair'],
      [/^--limit [^\n]+: npm run admin -- audit --help shows the usage\.\n$/, 'audit', '--limit', '0'],
    ];
    for (const [says, ...args] of wrong) {
      const refused = await admin(...args);
      expect(refused).include({ stdout: '', code: 2 });
      expect(refused.stderr).match(says);
    }
  });

  it('encrypts stored credentials again with the first key, and fails if no key can decrypt them', async () => {
    const { db } = own.container;
    const tool = { id: uuidv7(), orgId: ada.orgId, provider: 'brave_search', credentials: 'gone:AAAA' };
    await db('tool_connections').insert({ ...tool, scopes: [], status: 'active' });
    const files = db('connections').where({ id: await aStoredConnection(own, ada, 'Reports') });
    await files.clone().update({ credentials: 'gone:AAAA' });
    const failed = await admin('reseal');
    expect(failed).include({ stdout: 'encrypted again: 0\nunreadable with all keys: 2\n', code: 1 });
    await db('tool_connections').where({ id: tool.id }).delete();
    await files.delete();
    expect(await admin('reseal')).include({ code: 0 });
  });

  it('verifies the stores, repairs a difference and verifies again', async () => {
    const { embedding_job_id } = await anUpload(ada, { name: 'note.txt', content: 'Some words about loans.' });
    await untilRun(ada, embedding_job_id ?? '', 'succeeded');
    const sound = await admin('verify');
    expect(sound.stdout)
      .match(/^ok {4}\[I1\] every uploaded document [^\n]+: 1 checked$/m)
      .match(/^ok {4}\[I11\]/m)
      .match(/\nThe stored data is sound\.\n$/);
    expect(sound.code, sound.stdout).equal(0);

    await own.container.db.raw(
      `insert into chunk_vectors (chunk_id, org_id, document_id, generation, model, embedding)
       values (gen_random_uuid(), ?, ?, 1, 'some-model', '[1,0]')`,
      [ada.orgId, uuidv7()],
    );
    const broken = await admin('verify');
    expect(broken.stdout).match(/^WRONG \[I4\] .*: 1 violations in \d+ checked\n {7}orphan_points/m);
    expect(broken.stdout).match(/\n1 violations found: docs\/operators\.md says [^\n]+\n$/);
    expect(broken.code).equal(1);

    const reported = await admin('audit-stores');
    expect(reported.stdout).include('orphan_points: 1 found, 0 repaired');
    expect(reported).include({ code: 1, stderr: '' });
    const repaired = await admin('audit-stores', '--repair');
    expect(repaired.stdout).include('orphan_points: 1 found, 1 repaired');
    expect(repaired).include({ code: 0, stderr: '' });
    expect(await own.container.invariants.check()).deep.equal([]);

    const run = own.container.temporal.client.workflow.getHandle(auditWorkflowId);
    expect((await run.describe()).status.name).equal('COMPLETED');
  });

  it('compares the stores in its own process when no worker runs', async () => {
    const alone = await startStack({}, { workers: false });
    const { stdout, stderr, code } = await runAdmin(alone.settings, ['audit-stores']).finally(alone.close);
    expect(stderr).match(/^No worker answers/);
    expect(stdout).include('nothing found');
    expect(code).equal(0);
  });

  it('reports in one line that no installation exists or its database is unreachable', async () => {
    const { DATABASE_URL, ...withoutDatabase } = own.settings;
    const nowhere = await runAdmin(withoutDatabase, ['verify']);
    expect(nowhere.stderr).match(/^There is no installation in [^\n]+\n$/);
    expect(nowhere.code).equal(1);
    const cut = {
      ...own.settings,
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
      TEMPORAL_ADDRESS: '127.0.0.1:1',
      TEMPORAL_CALL_TIMEOUT_MS: '2000',
    };
    expect((await runAdmin(cut, ['audit-stores'])).stderr).match(
      /^No worker .+\nThe stores could not be compared: .+\n$/,
    );
    const away = await runAdmin(cut, ['verify']);
    expect(away.stdout).match(/^\? {5}\[I1\] .+: could not be checked \(.+\)$/m);
    expect(away.stdout).match(/\n\d+ checks could not run; 0 violations found\.\n$/);
    expect(away.code).equal(1);
  });

  it('changes the embedding model of an organization', async () => {
    const { embeddingModel } = own.config.models;
    const reembed = (...args: string[]) => admin('reembed', ada.orgId, ...args);
    expect(await reembed('--status')).include({ stdout: 'The organization was never re-embedded.\n', code: 1 });
    const refused = await reembed('--model', 'nobody-offers-this');
    expect(refused.stderr).match(/^This deployment does not offer the embedding model nobody-offers-this\. .+\n$/);
    expect(refused).include({ stdout: '', code: 1 });

    const started = { stdout: `Started job reembed-${ada.orgId}.\n`, stderr: '', code: 0 };
    expect(await reembed('--model', embeddingModel)).include(started);
    await untilJob(ada, `reembed-${ada.orgId}`, 'succeeded');
    expect((await reembed('--status')).stdout).match(/^reembed-[\w-]+: succeeded, (\d+) of \1 documents\n$/);
    expect(await reembed('--pause')).include({ stdout: 'The job is not running.\n', code: 1 });
  });

  it("works with schedules for audits and clean-ups, which keep an operator's changes when workers start again", async () => {
    const startWorkersAgain = async () => {
      const second = startWorkers(own.container);
      await second.polling;
      await second.shutdown();
    };
    await startWorkersAgain();
    const { schedule, workflow } = own.container.temporal.client;
    const ids = async () => (await collect(schedule.list())).map(({ scheduleId }) => scheduleId);
    const all = ['audit-stores', 'clean-up-daily', 'clean-up-hourly'];
    await until('the schedules are listed', async () => (await ids()).sort().join() === all.join());

    const expired = { name: 'sign_in', subject: Buffer.alloc(32), used: 1, endsAt: new Date(0) };
    await own.container.db('rateLimits').insert(expired);
    const results: unknown[] = [];
    for (const [id, workflowType, catchupMinutes, everyMinutes] of [
      ['audit-stores', 'auditStores', 10, 24 * 60],
      ['clean-up-daily', 'cleanUp', 24 * 60, 24 * 60],
      ['clean-up-hourly', 'cleanUp', 24 * 60, 60],
    ] as const) {
      const handle = schedule.getHandle(id);
      await handle.pause('while we move the disks');
      const { action, policies, info } = await handle.describe();
      expect(action).deep.include({ workflowType, taskQueue: taskQueues.workflows });
      expect(policies).deep.include({ overlap: 'SKIP', catchupWindow: catchupMinutes * 60_000 });
      expect(Number(info.nextActionTimes[1]) - Number(info.nextActionTimes[0])).equal(everyMinutes * 60_000);
      await handle.trigger();
      const started = await until('it has started a run', async () => (await handle.describe()).info.recentActions[0]);
      if (started.action.type !== 'startWorkflow') throw new Error('the schedule started something else');
      results.push(await workflow.getHandle(started.action.workflow.workflowId).result());
    }
    expect(results[0]).deep.include({ findings: {} });
    expect(results[1]).include({ 'forget expired sessions': 0, 'maintain the vector store': 0 });
    expect(results[2]).property('forget windows of rate limits').greaterThan(0);
    await startWorkersAgain();
    for (const id of all) {
      const { state } = await schedule.getHandle(id).describe();
      expect(state).include({ paused: true, note: 'while we move the disks' });
    }
  });

  describe('for a whole organization:', () => {
    let grace: Member;
    beforeEach(async () => {
      ada = await own.signUp();
      grace = await aColleague(own, ada, 'Grace');
      for (const member of [ada, grace]) {
        await anIngestedDocument(member, 'Mine', `The fox of ${member.userId} is quick and brown.`);
        const agentId = await aPublishedAgent(member);
        await ask(member, { agent_id: agentId, message: 'How quick is a fox?' }, 201);
      }
    });

    it('exports all data of the organization into archives that other programs can unpack', async () => {
      const { db } = own.container;
      await aTeam(ada, [grace]);
      await uploadAvatar(grace, gifOfFrames(1), 200);
      await aStoredConnection(own, grace, 'Hers');
      await storeEvaluation(db, grace);
      const orgId = ada.orgId;
      const folder = await mkdtemp(join(own.config.dataDir, 'export-'));
      const { stdout, stderr, code } = await admin('export-organization', orgId, '--into', folder);
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
      expect(manifest.records).include({ users: 2, avatars: 1, evaluations: 1, team_members: 1, sessions: 2 });
      for (const { name } of exportedRecordKinds) {
        expect(recordsOf(files, name).length, name).equal(manifest.records[name] ?? 0);
      }
      const texts = recordsOf(files, 'documents').map(({ original }) => String(files.get(Object(original).path)));
      expect(texts).members([ada, grace].map(({ userId }) => `The fox of ${userId} is quick and brown.`));
      const { passwordHash } = await db('users').where({ id: ada.userId }).first();
      const { credentials } = await db('connections').where({ orgId }).first();
      const everything = [...files.values()].map(String).join('\n');
      expect(everything).not.contain(passwordHash).and.not.contain(credentials);
      const [entry] = await own.container.audit.list({ orgId, action: 'organization.exported' }, 1);
      expect(entry).include({ actorId: null, target: orgId });
    });

    it('refuses to erase the organization if its id is not repeated or unknown', async () => {
      const erase = 'erase-organization';
      const refusals: [args: string[], code: number, says: string][] = [
        [[erase, ada.orgId], 1, 'The id does not match: nothing was deleted.'],
        [[erase, ada.orgId, '--status'], 1, 'is not deleted'],
        [[erase, ada.userId, '--yes'], 1, 'There is no organization'],
        [[erase, ada.orgId, '--status', '--now'], 2, ''],
        [['export-organization', ada.orgId], 2, ''],
      ];
      for (const [args, code, says] of refusals) {
        const refused = await runAdmin(own.settings, args, { input: `${ada.userId}\n` });
        expect(refused, args.join(' ')).include({ code });
        expect(refused.stdout + refused.stderr).contain(says);
      }
      await ada.get('/entity/me/membership', 200);
    });

    it('deletes the organization, and with --now erases its data at once', async () => {
      const before = await membersAndRemains(own, ada.orgId);
      const erase = (args: string[], input = '') =>
        runAdmin(own.settings, ['erase-organization', ada.orgId, ...args], { input });
      const deleted = await erase([], `${ada.orgId}\n`);
      expect(deleted, deleted.stderr).include({ code: 0 });
      expect(deleted.stdout).match(/is deleted, and is erased from \d{4}-/);
      const isSignedOut = async () => (await ada.raw('/entity/me/membership')).status === 401;
      await until('she is signed out of a process that did not delete it', isSignedOut);
      const job = own.container.db('jobs').where({ id: `erase-${ada.orgId}` });
      await until('it waits for its day', async () => (await job.clone().first()).stage === 'wait');
      expect((await erase(['--status'])).stdout).contain('running, wait');
      expect((await erase(['--now', '--yes'])).code).equal(0);
      const left = () => remainsOfOrganization(own, ada.orgId, before.userIds);
      await until('nothing is left', async () => (await left()).length === 0);
      const status = await erase(['--status']);
      expect(status).include({ code: 0 });
      expect(status.stdout)
        .match(/^Erased at \d\S+: /)
        .contain('2 documents')
        .contain('2 chats');
      expect((await erase(['--now', '--yes'])).stdout).equal(status.stdout);
      const acts = await own.container.audit.list({ orgId: ada.orgId, action: 'organization' }, 10);
      expect(acts.map(({ action, actorId }) => [action, actorId])).deep.equal([
        ['organization.erased', null],
        ['organization.erasure_hurried', null],
        ['organization.deleted', null],
      ]);
    });
  });
});
