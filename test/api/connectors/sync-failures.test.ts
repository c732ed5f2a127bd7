import { expect } from 'chai';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type ConnectorStack, connectorStack } from '#test/support/connector-stack.ts';
import { connectSynced, importStack, shelf, sync } from '#test/support/import-stack.ts';

describe('a file that a sync cannot import', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  it('is retried by the next sync, although the provider reports no change', async () => {
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

  it('is rejected with rate_limited while its organization has 16 downloads, and imported afterwards', async () => {
    const { fakes, container } = await connectorStack();
    const fake = fakes.acme_drive;
    const { member, id, path } = await connectSynced(await connectorStack(), 'acme_drive', 'many');
    for (let n = 1; n <= 17; n += 1) fake.tree.add(`many/${n}.txt`);
    const { body } = await member.post(`${path}/sync`, {}, 202);
    const of = { orgId: member.orgId, connectionId: id, runId: Object(body).id };
    const { signal } = new AbortController();
    await container.importSteps.begin(of);
    await container.importSteps.list(of, signal);
    const held = Array.from({ length: 16 }, () => fake.holdNext());
    const fetch = (n: number) => container.importSteps.fetch({ ...of, n }, { signal, attempt: 1 });
    const fetched = held.map((_, index) => fetch(index + 1));
    await Promise.all(held.map(({ arrived }) => arrived));
    expect(await appErrorCode(fetch(17))).equal('rate_limited');
    for (const { release } of held) release();
    expect(await Promise.all(fetched)).deep.equal(Array(16).fill({ status: 'added', code: null }));
    expect(await fetch(17)).deep.equal({ status: 'added', code: null });
  });

  it('fails alone when the provider is available but never returns it', async () => {
    const { fakes, container } = await connectorStack();
    const fake = fakes.acme_drive;
    fake.tree.add('poisonous/a.txt');
    const { member, id, path } = await connectSynced(await connectorStack(), 'acme_drive', 'poisonous');
    const { body } = await member.post(`${path}/sync`, {}, 202);
    const of = { orgId: member.orgId, connectionId: id, runId: Object(body).id };
    const { signal } = new AbortController();
    await container.importSteps.begin(of);
    await container.importSteps.list(of, signal);
    const fetch = (attempt: number, faults: number) => {
      fake.failNext(faults, { status: 500, json: { error: { code: 500, message: 'Internal Error' } } });
      return container.importSteps.fetch({ ...of, n: 1 }, { signal, attempt });
    };
    expect(await appErrorCode(fetch(9, 1))).equal('provider_unavailable');
    expect(await appErrorCode(fetch(10, 2))).equal('provider_unavailable');
    expect(await fetch(10, 1)).deep.equal({ status: 'failed', code: 'provider_unavailable' });
  });
});
