import { expect } from 'chai';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import { connectSynced, importStack, shelf, sync, syncsOf } from '#test/support/import-stack.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('deletions by a sync', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  it('keep a file that one page of changes reports as deleted and a later page as restored', async () => {
    const fake = api.fakes.acme_dropbox;
    const { tree } = fake;
    for (const name of ['x.txt', 'y.txt']) tree.add(`pages/${name}`);
    const { member, id } = await connectSynced(api, 'acme_dropbox', 'pages');
    await sync(member, id);
    fake.pageSize(1);
    const gone = tree.remove('pages/x.txt');
    tree.add('pages/z.txt');
    const [first, second] = [fake.holdNext(), fake.holdNext()];
    const run = sync(member, id);
    await first.arrived;
    first.release();
    await second.arrived;
    tree.restore(gone);
    second.release();
    expect(await run).include({ mode: 'delta', added: 1, deleted: 0 });
    fake.pageSize(1_000);
    expect(await shelf(member)).deep.equal(['x.txt', 'y.txt', 'z.txt']);
  });

  it('keep the files of other folders whose names are equal or differ in case only', async () => {
    const { tree } = api.fakes.acme_drive;
    for (const name of ['A/one.txt', 'B/two.txt', 'reports/four.txt']) tree.add(`alike/${name}`);
    tree.rename('alike/B', 'A');
    const { member, id } = await connectSynced(api, 'acme_drive', 'alike');
    await sync(member, id);
    // The service merges both into one folder, named as in the path of the first file.
    tree.add('alike/Reports/three.txt');
    expect(await sync(member, id)).include({ mode: 'delta', added: 1 });
    expect(await shelf(member)).members(['A/one.txt', 'A/two.txt', 'reports/four.txt', 'reports/three.txt']);
    tree.remove('alike/Reports');
    expect(await sync(member, id)).include({ mode: 'delta', deleted: 1 });
    expect(await shelf(member)).members(['A/one.txt', 'A/two.txt', 'reports/four.txt']);
    tree.remove('alike/A');
    expect(await sync(member, id)).include({ mode: 'full', deleted: 1 });
    expect(await shelf(member)).members(['A/two.txt', 'reports/four.txt']);
    // Only one folder of that name is left, so the delta is unambiguous.
    tree.remove('alike/A');
    expect(await sync(member, id)).include({ mode: 'delta', deleted: 1 });
    expect(await shelf(member)).deep.equal(['reports/four.txt']);
  });

  it('of most documents wait until the user continues, and keep what is restored until then', async () => {
    const { tree } = api.fakes.acme_drive;
    // A sync deletes at most 20 documents without asking.
    for (let n = 0; n < 23; n++) tree.add(`emptied/${n}.txt`);
    const { member, id, path } = await connectSynced(api, 'acme_drive', 'emptied');
    await sync(member, id);
    const remove = (from: number) =>
      Array.from({ length: 23 - from }, (_, n) => tree.remove(`emptied/${from + n}.txt`));
    const retry = () => member.post(`/jobs/${syncWorkflowId(id)}/retry`, {}, 202);

    const gone = remove(1);
    const parked = await sync(member, id, 'parked');
    expect(parked).deep.include({ deleted: 0, status: 'parked' });
    expect(parked.last_error?.code).equal('mass_deletion');
    expect(await shelf(member)).length(23);
    await retry();
    await untilJob(member, parked.job_id, 'parked');
    for (const one of gone.slice(1)) tree.restore(one);
    await retry();
    await untilJob(member, parked.job_id, 'succeeded');
    expect((await syncsOf(member, id))[0]).include({ status: 'succeeded', unchanged: 22, deleted: 1 });

    const goneAgain = remove(2);
    const parkedAgain = await sync(member, id, 'parked');
    for (const one of goneAgain.slice(-1)) tree.restore(one);
    const { body } = await member.post(`${path}/sync`, { accept_deletions: true }, 202);
    expect(Object(body).id).equal(parkedAgain.id);
    await untilJob(member, parkedAgain.job_id, 'succeeded');
    expect((await syncsOf(member, id))[0]).include({ status: 'succeeded', deleted: 20 });
    expect(await shelf(member)).members(['0.txt', '22.txt']);
  });
});
