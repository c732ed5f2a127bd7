import { expect } from 'chai';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import { connectSynced, importStack, shelf, sync } from '#test/support/import-stack.ts';

describe('a file that a sync cannot import', function () {
  this.timeout(120_000);
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  it('is tried again by the next one, though nobody tells of it', async () => {
    const fake = api.fakes.acme_drive;
    fake.tree.add('refused/a.txt');
    const { member, id } = await connectSynced(api, 'acme_drive', 'refused');
    await sync(member, id);
    fake.tree.add('refused/late.txt');
    let hold = fake.holdNext();
    const refused = sync(member, id);
    for (let isSent = false; !isSent; ) {
      await hold.arrived;
      isSent = fake.calls.at(-1)?.url.searchParams.get('alt') === 'media';
      const { release } = hold;
      if (isSent) fake.failNext(1, { status: 400, json: { error: { code: 400, message: 'Not now.' } } });
      else hold = fake.holdNext();
      release();
    }
    expect(await refused).include({ mode: 'delta', added: 0, failed: 1 });
    expect(await sync(member, id)).include({ mode: 'delta', added: 1, failed: 0 });
    expect(await sync(member, id)).include({ mode: 'delta', added: 0, failed: 0 });
    expect(await shelf(member)).deep.equal(['a.txt', 'late.txt']);
  });
});
