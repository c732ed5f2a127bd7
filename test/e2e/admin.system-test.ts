import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { auditWorkflowId } from '#src/contracts/workflow-ids.ts';
import { taskQueues } from '#src/contracts/workflow-runs.ts';
import { fullDocumentSchema } from '#src/modules/documents/documents.schema.ts';
import { runAdmin } from '#test/support/admin-command.ts';
import { aPublishedAgent, aStoredConnection, ask } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { collect } from '#test/support/collect.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';
import { startWorkers } from '#workers/run.ts';

const admin = (settings: Readonly<Record<string, string>>, ...args: string[]) => runAdmin(settings, args);

describe('npm run admin', function () {
  this.timeout(120_000);
  let own: Stack;
  let ada: Member;

  before(async () => {
    own = await startStack({}, { workers: 'all' });
    ada = await own.signUp();
  });
  after(() => own.close());

  const addOrphan = () =>
    own.container.db.raw(
      `insert into chunk_vectors (chunk_id, org_id, document_id, generation, model, embedding)
       values (gen_random_uuid(), ?, ?, 1, 'some-model', '[1,0]')`,
      [ada.orgId, uuidv7()],
    );

  it('lists the commands, and refuses unknown ones in one line', async () => {
    const { stdout, code } = await admin(own.settings);
    expect(stdout).include('verify').include('audit-stores [--repair');
    expect(code).equal(0);
    const unknown = await admin(own.settings, 'delete');
    expect(unknown).include({ stdout: '', code: 2 });
    expect(unknown.stderr).match(/^There is no command "delete": [^\n]+\n$/);
    const wrong = await admin(own.settings, 'verify', '--repair');
    expect(wrong).include({ stdout: '', code: 2 });
    expect(wrong.stderr).match(/^Unexpected arguments "--repair": [^\n]+\n$/);
    const notAnId = await admin(own.settings, 'reembed', 'acme', '--status');
    expect(notAnId).include({ stdout: '', code: 2 });
    expect(notAnId.stderr).match(/^"acme" is not an organization id, which is a UUID[^\n]+\n$/);
  });

  it('encrypts credentials with the first key, and fails if no key can decrypt them', async () => {
    const rows = () => own.container.db('tool_connections').where({ orgId: ada.orgId });
    const unreadable = { id: uuidv7(), orgId: ada.orgId, provider: 'brave_search', credentials: 'gone:AAAA' };
    await own.container.db('tool_connections').insert({ ...unreadable, scopes: [], status: 'active' });
    const id = await aStoredConnection(own, ada, 'Reports');
    const files = () => own.container.db('connections').where({ id });
    await files().update({ credentials: 'gone:AAAA' });
    const failed = await admin(own.settings, 'reseal');
    expect(failed).include({ stdout: 'encrypted again: 0\nunreadable with all keys: 2\n', code: 1 });
    await rows().delete();
    await files().delete();
    expect(await admin(own.settings, 'reseal')).include({ code: 0 });
  });

  it('verifies the stores, repairs a difference and verifies again', async () => {
    const { body } = await ada.upload('/documents', { name: 'note.txt', content: 'Some words about loans.' }, 201);
    const { embedding_job_id: jobId } = fullDocumentSchema.parse(body);
    await untilRun(ada, jobId ?? '', 'succeeded');

    const sound = await admin(own.settings, 'verify');
    expect(sound.stdout)
      .match(/^I1 {3}ok {4}1 checked: /m)
      .match(/^I2 {3}ok/m)
      .match(/^I11 {2}ok/m)
      .match(/\nNot checked here: I3, [^\n]+\nAll invariants hold\.\n$/);
    const names = sound.stdout.match(/^I\d+/gm) ?? [];
    expect(names).deep.equal([...new Set(names)]);
    expect(sound.code, sound.stdout).equal(0);

    await addOrphan();
    const broken = await admin(own.settings, 'verify');
    expect(broken.stdout).match(/^I4 {3}FAIL {2}\d+ checked, 1 violations: .*\n {7}orphan_points/m);
    expect(broken.stdout).match(/\n1 violations found: docs\/operators\.md describes how to repair each\.\n$/);
    expect(broken.code).equal(1);

    const reported = await admin(own.settings, 'audit-stores');
    expect(reported.stdout).include('orphan_points: 1 found, 0 repaired');
    expect(reported).include({ code: 1, stderr: '' });
    const repaired = await admin(own.settings, 'audit-stores', '--repair');
    expect(repaired.stdout).include('orphan_points: 1 found, 1 repaired');
    expect(repaired).include({ code: 0, stderr: '' });
    expect(await own.container.invariants.check()).deep.equal([]);

    const run = own.container.temporal.client.workflow.getHandle(auditWorkflowId);
    expect((await run.describe()).status.name).equal('COMPLETED');
  });

  it('compares the stores in its own process when no worker runs', async () => {
    const alone = await startStack({}, { workers: false });
    try {
      const { stdout, stderr, code } = await admin(alone.settings, 'audit-stores');
      expect(stderr).match(/^No worker answers/);
      expect(stdout).include('nothing found');
      expect(code).equal(0);
    } finally {
      await alone.close();
    }
  });

  it('reports in one line that there is no installation, or that its database is unreachable', async () => {
    const { DATABASE_URL, ...withoutDatabase } = own.settings;
    const nowhere = await admin(withoutDatabase, 'verify');
    expect(nowhere.stderr).match(/^There is no installation in [^\n]+\n$/);
    expect(nowhere.code).equal(1);
    const cut = {
      ...own.settings,
      DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
      TEMPORAL_ADDRESS: '127.0.0.1:1',
      TEMPORAL_CALL_TIMEOUT_MS: '2000',
    };
    expect((await admin(cut, 'audit-stores')).stderr).match(/^No worker .+\nThe stores could not be compared: .+\n$/);
    const away = await admin(cut, 'verify');
    expect(away.stdout).match(/^I1 {3}\? {5}could not be checked \(.+\)/m);
    expect(away.stdout).match(/\n\d+ checks could not run; 0 violations found\.\n$/);
    expect(away.code).equal(1);
  });

  it('changes the embedding model of an organization', async () => {
    const { embeddingModel } = own.config.models;
    const reembed = (...args: string[]) => admin(own.settings, 'reembed', ada.orgId, ...args);
    expect(await reembed('--status')).include({ stdout: 'The organization was never re-embedded.\n', code: 1 });
    const refused = await reembed('--model', 'nobody-offers-this');
    expect(refused.stderr).match(/^This deployment does not offer the embedding model nobody-offers-this\. .+\n$/);
    expect(refused).include({ stdout: '', code: 1 });

    expect(await reembed('--model', embeddingModel)).include({
      stdout: `Started job reembed-${ada.orgId}.\n`,
      stderr: '',
      code: 0,
    });
    await untilJob(ada, `reembed-${ada.orgId}`, 'succeeded');
    expect((await reembed('--status')).stdout).match(/^reembed-[\w-]+: succeeded, (\d+) of \1 documents\n$/);
    expect(await reembed('--pause')).include({ stdout: 'The job is not running.\n', code: 1 });
  });

  it('queues chats for new scores that another scorer scored', async () => {
    const { db } = own.container;
    const rescore = (...args: string[]) => admin(own.settings, 'rescore', ada.orgId, ...args);
    const agentId = await aPublishedAgent(ada);
    const message = 'What is the interest rate of a mortgage loan?';
    const { chat_id: chatId, postprocess_job_id: jobId } = await ask(ada, { agent_id: agentId, message }, 201);
    await untilJob(ada, jobId, 'succeeded');
    const scoreOf = () => db('rounds').where({ chatId }).first('scorerVersion', 'userScore', 'echoState', 'ewma');
    const scored = await scoreOf();
    await db('rounds').where({ chatId }).update({ scorerVersion: '1/before', userScore: 0.1 });

    expect((await rescore('--status')).stdout).equal('Chats queued for new scores: 0.\n');
    expect(await rescore()).include({ stdout: 'Chats queued for new scores: 1.\n', stderr: '', code: 0 });
    const isScoredAgain = async () => {
      // Makes the job old enough to be queued again.
      const longAgo = db.raw("now() - interval '1 minute'");
      await db('jobs').where({ chatId }).whereNotNull('finishedAt').update({ finishedAt: longAgo });
      return (await scoreOf()).scorerVersion !== '1/before';
    };
    await until('the chat is scored again', isScoredAgain);
    expect(await scoreOf()).deep.equal(scored);
    expect((await rescore('--status')).stdout).equal('Chats queued for new scores: 0.\n');
  });

  it('creates one schedule for the daily audit, however many workers start', async () => {
    const second = startWorkers(own.container);
    await second.polling;
    await second.shutdown();

    const { schedule, workflow } = own.container.temporal.client;
    const found = await until('the schedule is listed', async () => {
      const all = await collect(schedule.list());
      return all.length > 0 && all;
    });
    expect(found.map(({ scheduleId }) => scheduleId)).deep.equal(['audit-stores']);

    const daily = schedule.getHandle('audit-stores');
    const { action, policies } = await daily.describe();
    expect(action).deep.include({ workflowType: 'auditStores', taskQueue: taskQueues.storeAudit });
    expect(policies).deep.include({ overlap: 'SKIP', catchupWindow: 10 * 60_000 });
    await daily.trigger();
    const started = await until('it has started a run', async () => (await daily.describe()).info.recentActions[0]);
    if (started.action.type !== 'startWorkflow') throw new Error('the schedule started something else');
    const report = await workflow.getHandle(started.action.workflow.workflowId).result();
    expect(report.findings).deep.equal({});
  });

  it("keeps an operator's changes to the schedule", async () => {
    const daily = own.container.temporal.client.schedule.getHandle('audit-stores');
    await daily.pause('while we move the disks');
    const second = startWorkers(own.container);
    await second.polling;
    await second.shutdown();
    expect((await daily.describe()).state).include({ paused: true, note: 'while we move the disks' });
  });
});
