import { expect } from 'chai';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import { connectSynced, importStack, shelf, sync } from '#test/support/import-stack.ts';

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
    for (const name of ['A/one.txt', 'B/two.txt', 'Reports/three.txt', 'reports/four.txt']) tree.add(`alike/${name}`);
    tree.rename('alike/B', 'A');
    const { member, id } = await connectSynced(api, 'acme_drive', 'alike');
    await sync(member, id);
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
});
