import { expect } from 'chai';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import { connectSynced, importStack, shelf, sync, syncsOf } from '#test/support/import-stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('a sync beside others who write what it writes', function () {
  this.timeout(120_000);
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

  /** A sync to which a known file is being sent anew, under another name if so. */
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

  it('writes a file down, and fetches it once, while it is noted why another is tried again', async () => {
    const { db, jobs } = api.container;
    const { member, id, send } = await receiving('noted');
    const jobId = syncWorkflowId(id);
    const before = api.fakes.acme_drive.downloads.length;
    const trx = await db.transaction();
    await trx('jobs').where({ id: jobId }).forUpdate();
    const noted = jobs.noteFault(jobId, { code: 'provider_throttled', message: 'Wait.' });
    await untilWaiting(1);
    send();
    await untilWaiting(2);
    await trx.commit();
    await noted;
    await untilJob(member, jobId, 'succeeded');
    expect(api.fakes.acme_drive.downloads.length - before).equal(1);
  });

  it('leaves a document called and put as its user has done while the file was sent', async () => {
    const { member, id, send } = await receiving('named meanwhile', 'theirs.txt');
    const { items } = Object((await member.get('/documents', 200)).body);
    await member.patch(`/documents/${items[0].id}`, { name: 'mine' }, 200);
    send();
    await untilJob(member, syncWorkflowId(id), 'succeeded');
    expect((await syncsOf(member, id))[0]).include({ updated: 1, failed: 0 });
    expect(await shelf(member)).deep.equal(['mine']);
  });

  it('lets its connection be deleted', async () => {
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

  it('goes on by itself when it parks after the consent that it waits for', async () => {
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
