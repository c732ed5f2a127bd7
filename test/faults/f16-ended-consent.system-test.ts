import { expect } from 'chai';
import { connect } from '#test/support/connector-stack.ts';
import { isFullRun, note } from '#test/support/fault-run.ts';
import { importFiles, importStack, shelf } from '#test/support/import-stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';

const total = isFullRun ? 1_000 : 40;
/** Files that are fetched at once: what is under way at the end may be asked for twice. */
const underWay = 8;

describe("F16: an import for which the user's consent ends", function () {
  this.timeout(900_000);

  it(`after ${total / 2} of ${total} files loses no file and downloads none twice once the consent is renewed`, async () => {
    const api = await importStack();
    const member = await api.signUp();
    const fake = api.fakes.acme_drive;
    const names = Array.from({ length: total }, (_, n) => `many/${n}.txt`);
    for (const name of names) fake.tree.add(name, `The file ${name}.`);
    const account = 'revoked-on-the-way';
    const { id } = await connect(api, member, 'acme_drive', { account });
    const begun = fake.downloads.length;
    fake.onDownload((_, before) => {
      if (before - begun >= total / 2) fake.revokeGrants();
    });
    const request = { connection_id: id, files: [{ path: 'many' }] };
    const [result] = await importFiles(member, request, { wait: 0 });
    const jobId = result?.job_id ?? '';
    const jobOf = async () => Object((await member.get(`/jobs/${jobId}`, 200)).body);
    await until('it is parked', async () => (await jobOf()).status === 'parked');
    fake.onDownload(null);
    expect(await jobOf()).deep.nested.include({ 'last_error.code': 'needs_reauth' });
    await member.post('/documents/import-from-connector', request, 409);

    const here = () => api.container.db('connector_documents').where({ connectionId: id }).pluck('remote_id');
    const kept: string[] = await here();
    expect(kept.length).within(total / 2 - underWay, total / 2 + underWay);
    const parked = fake.downloads.length;
    const renewed = await connect(api, member, 'acme_drive', { account });
    expect(renewed.id).equal(id);
    await untilRun(member, jobId, 'succeeded');

    const afterwards = fake.downloads.slice(parked);
    expect(afterwards.filter((file) => kept.includes(file))).deep.equal([]);
    expect(new Set(fake.downloads.slice(begun)).size).equal(total);
    expect(fake.downloads.length - begun).most(total + underWay);
    expect(await here()).length(total);
    expect(await shelf(member)).deep.equal([...names].sort());
    note(`${kept.length} of ${total} files here when the consent ended; ${afterwards.length} downloads afterwards`);
  });
});
