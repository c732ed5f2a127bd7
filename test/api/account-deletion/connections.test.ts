import { expect } from 'chai';
import { erasureWorkflowId, syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { aColleague } from '#test/support/builders.ts';
import { type ConnectorStack, connect, startConnectorStack } from '#test/support/connector-stack.ts';
import { expectInvariants } from '#test/support/fault-case.ts';
import { importFiles } from '#test/support/import-stack.ts';
import { membersAndRemains, remainsOfOrganization } from '#test/support/remaining-content.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('connections of a deleted account', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await startConnectorStack({ ERASE_AFTER_DAYS: '0' }, { workers: true });
  });
  after(() => api.close());
  afterEach(() => expectInvariants(api));

  const isOpen = async (jobId: string) => (await api.container.orchestrator.describe(jobId)) === 'open';
  const isScheduled = (id: string) =>
    api.container.temporal.client.schedule
      .getHandle(syncWorkflowId(id))
      .describe()
      .then(
        () => true,
        () => false,
      );

  /** Creates a connection with an hourly sync, and an import that is parked after its consent was revoked. */
  async function parkedImport(member: Awaited<ReturnType<ConnectorStack['signUp']>>, folder: string) {
    const fake = api.fakes.acme_drive;
    fake.tree.add(`${folder}/first.txt`, `First of ${folder}.`);
    const { id } = await connect(api, member, 'acme_drive');
    const sync = { enabled: true, interval_minutes: 60, folder };
    await member.patch(`/connectors/connections/${id}`, { config: { sync } }, 200);
    await importFiles(member, { connection_id: id, files: [{ path: folder }] });
    fake.tree.add(`${folder}/second.txt`, `Second of ${folder}.`);
    fake.revokeGrants();
    const [result] = await importFiles(member, { connection_id: id, files: [{ path: folder }] }, { wait: 0 });
    await untilJob(member, result?.job_id ?? '', 'parked');
    expect(await isScheduled(id)).equal(true);
    return { id: String(id), jobId: result?.job_id ?? '' };
  }

  it('are deleted at once with their schedules and runs, and imported documents are erased', async () => {
    const ada = await api.signUp();
    const grace = await aColleague(api, ada);
    const { id, jobId } = await parkedImport(grace, 'of grace');
    await ada.delete(`/entity/members/${grace.userId}`, 204);
    await untilJob(ada, erasureWorkflowId(grace.userId), 'succeeded');
    expect([await isOpen(jobId), await isScheduled(id)]).deep.equal([false, false]);
    const { db } = api.container;
    for (const table of ['connections', 'import_runs', 'connector_documents', 'connection_schedules']) {
      expect(await db(table).where({ orgId: ada.orgId }), table).deep.equal([]);
    }
    expect(await db('documents').where({ orgId: ada.orgId })).deep.equal([]);
  });

  it('are revoked at their providers', async () => {
    const ada = await api.signUp();
    const grace = await aColleague(api, ada);
    const fakes = [api.fakes.acme_drive, api.fakes.acme_dropbox];
    const live = () => fakes.map(({ liveGrants }) => liveGrants());
    const before = live();
    for (const provider of ['acme_drive', 'acme_dropbox'] as const) {
      await connect(api, grace, provider, { account: grace.userId });
    }
    expect(live()).deep.equal(before.map((count) => count + 1));
    await ada.delete(`/entity/members/${grace.userId}`, 204);
    await untilJob(ada, erasureWorkflowId(grace.userId), 'succeeded');
    expect(live()).deep.equal(before);
  });

  it('leave no rows of a deleted organization', async () => {
    const ada = await api.signUp();
    const { id, jobId } = await parkedImport(ada, 'of ada');
    const { userIds } = await membersAndRemains(api, ada.orgId);
    await ada.delete('/entity/org', 204);
    const remains = () => remainsOfOrganization(api, ada.orgId, userIds);
    await until('nothing is left', async () => (await remains()).length === 0).catch(async () =>
      expect(await remains()).deep.equal([]),
    );
    expect([await isOpen(jobId), await isScheduled(id)]).deep.equal([false, false]);
  });

  it('of a disabled user start no sync, and stop a running one at the next file', async () => {
    const ada = await api.signUp();
    const grace = await aColleague(api, ada);
    const { id, jobId } = await parkedImport(grace, 'of a disabled one');
    await ada.post(`/entity/users/${grace.userId}/disable`, undefined, 204);
    const queued = await api.container.syncs.queueScheduled({ orgId: ada.orgId, connectionId: id });
    expect(queued).include({ jobId: null });
    const { db } = api.container;
    await db('connections').where({ id }).update({ status: 'active' });
    await until(
      'the import has failed',
      async () => (await db('jobs').where({ id: jobId }).first()).status === 'failed',
    );
    expect(await db('jobs').where({ id: jobId }).first()).include({ errorCode: 'account_disabled' });
  });
});
