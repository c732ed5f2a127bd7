import { expect } from 'chai';
import { type ConnectorStack, connect } from '#test/support/connector-stack.ts';
import { importFiles, importStack } from '#test/support/import-stack.ts';

describe('results of an import', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  it('contain a result for every item that names the same file', async () => {
    const { tree } = api.fakes.acme_drive;
    for (const name of ['a.txt', 'b.txt']) tree.add(`twice/${name}`);
    const member = await api.signUp();
    const { id } = await connect(api, member, 'acme_drive');
    const files = [{ path: 'twice/a.txt' }, { name: 'a.txt', folder: 'twice' }, { path: 'twice/b.txt' }];
    const results = await importFiles(member, { connection_id: id, files });
    expect(results.map(({ status }) => status)).deep.equal(['queued', 'queued', 'queued']);
    const [first, second, third] = results.map(({ document_id }) => document_id);
    expect(first).a('string').equal(second).not.equal(third);
  });

  it('report files that were not imported as cancelled after a cancellation', async () => {
    const fake = api.fakes.acme_drive;
    fake.tree.add('never/a.txt');
    const member = await api.signUp();
    const { id } = await connect(api, member, 'acme_drive');
    const hold = fake.holdNext();
    const results = importFiles(member, { connection_id: id, files: [{ path: 'never/a.txt' }] });
    await hold.arrived;
    const [job] = Object((await member.get('/jobs?kind=import', 200)).body).items;
    await member.post(`/jobs/${job.id}/cancel`, {}, 202);
    hold.release();
    const [result] = await results;
    expect(result).include({ status: 'failed', document_id: null });
    expect(result?.error?.code).equal('cancelled');
  });
});
