import { expect } from 'chai';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import { connectSynced, importStack, shelf, sync, syncsOf } from '#test/support/import-stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('a sync with concurrent writes to the same rows', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  const untilWaiting = (sessions: number) =>
    until(`${sessions} sessions wait for a lock`, async () => {
      const { rows } = await api.container.db.raw(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      );
      return rows.length >= sessions;
    });

  /** Starts a sync that waits for the new content of a known file, which has a new name if `name` is given. */
  async function receiving(folder: string, name = 'a.txt') {
    const fake = api.fakes.acme_drive;
    fake.tree.add(`${folder}/a.txt`);
    const synced = await connectSynced(api, 'acme_drive', folder);
    await sync(synced.member, synced.id);
    fake.tree.rename(`${folder}/a.txt`, name);
    fake.tree.edit(`${folder}/${name}`, 'Edited.');
    let hold = fake.holdNext();
    await synced.member.post(`${synced.path}/sync`, {}, 202);
    for (;;) {
      await hold.arrived;
      if (fake.calls.at(-1)?.url.searchParams.get('alt') === 'media') return { ...synced, send: hold.release };
      const { release } = hold;
      hold = fake.holdNext();
      release();
    }
  }

  it('records a file and downloads it once while another transaction records a job fault', async () => {
    const { db, jobs } = api.container;
    const { member, id, send } = await receiving('noted');
    const jobId = syncWorkflowId(id);
    const before = api.fakes.acme_drive.downloads.length;
    const trx = await db.transaction();
    await trx('jobs').where({ id: jobId }).forUpdate();
    const noted = jobs.recordRetriedError(jobId, { code: 'provider_throttled', message: 'Wait.' });
    await untilWaiting(1);
    send();
    await untilWaiting(2);
    await trx.commit();
    await noted;
    await untilJob(member, jobId, 'succeeded');
    expect(api.fakes.acme_drive.downloads.length - before).equal(1);
  });

  it('keeps the name that the user gives the document during the download', async () => {
    const { member, id, send } = await receiving('named meanwhile', 'theirs.txt');
    const { items } = Object((await member.get('/documents', 200)).body);
    await member.patch(`/documents/${items[0].id}`, { name: 'mine' }, 200);
    send();
    await untilJob(member, syncWorkflowId(id), 'succeeded');
    expect((await syncsOf(member, id))[0]).include({ updated: 1, failed: 0 });
    expect(await shelf(member)).deep.equal(['mine']);
  });

  it('does not block the deletion of its connection', async () => {
    const { member, id, path, send } = await receiving('deleted');
    const trx = await api.container.db.transaction();
    await trx('importRuns').where({ connectionId: id }).forUpdate();
    const deleted = member.delete(path, 204);
    await untilWaiting(1);
    send();
    await untilWaiting(2);
    await trx.commit();
    await deleted;
    expect(await shelf(member)).deep.equal(['a.txt']);
  });

  it('resumes when it parks after the new consent was given', async () => {
    const { importSteps } = api.container;
    api.fakes.acme_drive.tree.add('consented/a.txt');
    const { member, id } = await connectSynced(api, 'acme_drive', 'consented');
    const { id: runId, job_id: jobId } = await sync(member, id);
    const error = { code: 'needs_reauth', message: 'As of a call before the consent.' };
    await importSteps.recordParked({ orgId: member.orgId, connectionId: id, runId, error });
    expect((await member.get(`/jobs/${jobId}`, 200)).body).include({ status: 'parked' });
    await untilJob(member, jobId, 'succeeded');
  });
});
