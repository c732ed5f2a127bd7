import { expect } from 'chai';
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

  for (const answer of ['retry', 'accept_deletions'] as const) {
    it(`keep files that are restored at the provider before the user continues by ${answer}`, async () => {
      const { tree } = api.fakes.acme_drive;
      const folder = `mended before ${answer}`;
      // A sync deletes at most 20 documents without asking.
      for (let n = 0; n < 22; n++) tree.add(`${folder}/${n}.txt`);
      const { member, id, path } = await connectSynced(api, 'acme_drive', folder);
      await sync(member, id);
      const gone = Array.from({ length: 21 }, (_, n) => tree.remove(`${folder}/${n}.txt`));
      const parked = await sync(member, id, 'parked');
      for (const one of gone.slice(1)) tree.restore(one);
      if (answer === 'retry') await member.post(`/jobs/${parked.job_id}/retry`, {}, 202);
      else await member.post(`${path}/sync`, { accept_deletions: true }, 202);
      await untilJob(member, parked.job_id, 'succeeded');
      expect((await syncsOf(member, id))[0]).include({ status: 'succeeded', unchanged: 21, deleted: 1 });
      expect(await shelf(member)).length(21);
    });
  }
});
