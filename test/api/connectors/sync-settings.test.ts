import { expect } from 'chai';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import { rootOf } from '#test/support/folders.ts';
import { connectSynced, importStack, shelf, sync } from '#test/support/import-stack.ts';

describe('a sync whose settings have changed', function () {
  this.timeout(120_000);
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  it('brings what is here into another target, and deletes what it was not to delete before', async () => {
    const { tree } = api.fakes.acme_drive;
    for (const name of ['a.txt', 'b.txt', 'c.txt']) tree.add(`set anew/${name}`);
    const { member, id, path } = await connectSynced(api, 'acme_drive', 'set anew', { delete_missing: false });
    await sync(member, id);
    tree.remove('set anew/a.txt');
    expect(await sync(member, id)).include({ mode: 'delta', deleted: 0 });
    const change = (config: object) => member.patch(path, { config: { sync: config } }, 200);
    const wanted = { enabled: false, interval_minutes: 5, folder: 'set anew', delete_missing: true };
    await change(wanted);
    expect(await sync(member, id)).include({ mode: 'full', unchanged: 2, deleted: 1 });

    const target = Object(
      (await member.post('/folders', { name: 'Other place', parent_id: await rootOf(member, 'personal_root') }, 201))
        .body,
    );
    await change({ ...wanted, target_folder_id: target.id });
    expect(await sync(member, id)).include({ mode: 'full', updated: 2 });
    expect(await shelf(member)).deep.equal(['Other place/b.txt', 'Other place/c.txt']);
    expect(await sync(member, id)).include({ mode: 'delta', updated: 0 });
  });
});
