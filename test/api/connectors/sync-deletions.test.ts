import { expect } from 'chai';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import { connectSynced, importStack, shelf, sync, syncsOf } from '#test/support/import-stack.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('what a sync deletes', function () {
  this.timeout(120_000);
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  it('keeps what was told gone on one page and is back on a later one', async () => {
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

  it('keeps what is in a folder beside one of the same name, or of the same letters', async () => {
    const { tree } = api.fakes.acme_drive;
    for (const name of ['A/one.txt', 'B/two.txt', 'reports/four.txt']) tree.add(`alike/${name}`);
    tree.rename('alike/B', 'A');
    const { member, id } = await connectSynced(api, 'acme_drive', 'alike');
    await sync(member, id);
    // Here both are one folder, which is called as the file called it that came first.
    tree.add('alike/Reports/three.txt');
    expect(await sync(member, id)).include({ mode: 'delta', added: 1 });
    expect(await shelf(member)).members(['A/one.txt', 'A/two.txt', 'reports/four.txt', 'reports/three.txt']);
    tree.remove('alike/Reports');
    expect(await sync(member, id)).include({ mode: 'delta', deleted: 1 });
    expect(await shelf(member)).members(['A/one.txt', 'A/two.txt', 'reports/four.txt']);
    tree.remove('alike/A');
    expect(await sync(member, id)).include({ mode: 'full', deleted: 1 });
    expect(await shelf(member)).members(['A/two.txt', 'reports/four.txt']);
    // The one that stayed is known as the only one of its name.
    tree.remove('alike/A');
    expect(await sync(member, id)).include({ mode: 'delta', deleted: 1 });
    expect(await shelf(member)).deep.equal(['reports/four.txt']);
  });

  for (const answer of ['retry', 'accept_deletions'] as const) {
    it(`keeps what is back at the source before it is told to go on by ${answer}`, async () => {
      const { tree } = api.fakes.acme_drive;
      const folder = `mended before ${answer}`;
      for (let n = 0; n < 30; n++) tree.add(`${folder}/${n}.txt`);
      const { member, id, path } = await connectSynced(api, 'acme_drive', folder);
      await sync(member, id);
      const gone = Array.from({ length: 25 }, (_, n) => tree.remove(`${folder}/${n}.txt`));
      const parked = await sync(member, id, 'parked');
      for (const one of gone.slice(1)) tree.restore(one);
      if (answer === 'retry') await member.post(`/jobs/${parked.job_id}/retry`, {}, 202);
      else await member.post(`${path}/sync`, { accept_deletions: true }, 202);
      await untilJob(member, parked.job_id, 'succeeded');
      expect((await syncsOf(member, id))[0]).include({ status: 'succeeded', unchanged: 29, deleted: 1 });
      expect(await shelf(member)).length(29);
    });
  }
});
