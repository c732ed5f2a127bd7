import { PutObjectCommand } from '@aws-sdk/client-s3';
import { expect } from 'chai';
import { oauthConnectorProviders } from '#src/domain/connector-providers.ts';
import type { Member } from '#test/support/client.ts';
import { signUpColleague } from '#test/support/colleague.ts';
import { type ConnectorStack, connect, s3Fields } from '#test/support/connector-stack.ts';
import { type ImportResultView, importFiles, importStack, shelf } from '#test/support/import-stack.ts';
import { openBucket } from '#test/support/s3.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

describe('POST /documents/import-from-connector', function () {
  this.timeout(120_000);
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  const byName = async (member: Member, results: ImportResultView[]) => {
    const documents = await Promise.all(
      results.map(async ({ document_id }) => (await member.get(`/documents/${document_id}`, 200)).body),
    );
    return documents.map((document) => Object(document)) as Record<string, unknown>[];
  };

  for (const provider of oauthConnectorProviders) {
    it(`200: makes documents of files and folders of ${provider}, and finds them unchanged the next time`, async () => {
      const member = await api.signUp();
      const { tree, downloads } = api.fakes[provider];
      const at = `of ${member.userId}`;
      const plan = tree.add(`${at}/plan.txt`, 'The plan is short.');
      tree.add(`${at}/Reports/march.md`, '# March\n\nRain.');
      tree.add(`${at}/Reports/old/2019.txt`, 'Long ago.');
      const { id } = await connect(api, member, provider);
      const body = { connection_id: id, files: [{ path: `${at}/plan.txt` }, { name: 'Reports', folder: at }] };
      const before = downloads.length;

      const results = await importFiles(member, body);
      expect(results.map(({ status }) => status)).deep.equal(['queued', 'queued', 'queued']);
      expect(downloads.length - before).equal(3);
      for (const { job_id } of results) await untilRun(member, job_id, 'succeeded');
      const [first] = await byName(member, results);
      expect(first).include({
        name: 'plan.txt',
        content: 'The plan is short.',
        import_source_provider: provider,
        import_source_url: `${provider}:/of%20${member.userId}/plan.txt`,
      });
      expect(await shelf(member)).deep.equal(['Reports/march.md', 'Reports/old/2019.txt', 'plan.txt']);

      const again = await importFiles(member, { ...body, files: [{ file_id: results[0]?.file_id }, ...body.files] });
      expect(again.map(({ status }) => status)).deep.equal(['unchanged', 'unchanged', 'unchanged', 'unchanged']);
      // Two items name the same file, and each has its result.
      const same = [results[0], ...results];
      expect(again.map(({ document_id }) => document_id)).deep.equal(same.map((result) => result?.document_id));
      tree.edit(`${at}/plan.txt`, 'The plan is longer.');
      expect(plan.content.toString()).equal('The plan is longer.');
      const [edited] = await importFiles(member, { connection_id: id, files: [{ path: `${at}/plan.txt` }] });
      expect(edited).include({ status: 'queued', document_id: results[0]?.document_id });
      await untilRun(member, edited?.job_id ?? '', 'succeeded');
      const [now] = await byName(member, [edited as ImportResultView]);
      expect(now?.content).equal('The plan is longer.');
      expect(downloads.length - before).equal(4);
    });
  }

  it('200: makes documents of the objects of a bucket', async function () {
    const bucket = await openBucket(this);
    for (const [Key, Body] of Object.entries({ 'a.txt': 'One.', 'deep/er/b.txt': 'Two.' })) {
      await bucket.client.send(new PutObjectCommand({ Bucket: bucket.settings.bucket, Key, Body }));
    }
    const member = await api.signUp();
    const { body } = await member.post('/connectors/acme_s3/connections', s3Fields(bucket), 201);
    const files = [{ path: 'a.txt' }, { path: 'deep' }];
    const results = await importFiles(member, { connection_id: Object(body).id, files });
    expect(results.map(({ status }) => status)).deep.equal(['queued', 'queued']);
    expect(await shelf(member)).deep.equal(['a.txt', 'deep/er/b.txt']);
  });

  it('200: says of each file why it could not be had, and goes on with the others', async () => {
    const member = await api.signUp();
    const { tree } = api.fakes.acme_drive;
    tree.add('some/good.txt', 'Good.');
    tree.add('some/odd\u0000na\u202eme\n.txt', 'Odd.');
    tree.add('some/map', '', 'application/vnd.google-apps.map');
    const { id } = await connect(api, member, 'acme_drive');
    const files = [{ path: 'some' }, { file_id: 'nowhere' }];
    const results = await importFiles(member, { connection_id: id, files });
    const codes = results.map(({ status, error }) => error?.code ?? status);
    expect(codes.sort()).deep.equal(['queued', 'queued', 'remote_file_not_found', 'unsupported_format']);
    expect(results.find(({ file_id }) => file_id === 'nowhere')).include({ document_id: null, status: 'failed' });
    expect((await shelf(member)).length).equal(2);
  });

  it('200: records what was downloaded of a file that changes between list and download', async () => {
    const member = await api.signUp();
    const { tree, downloads, onDownload } = api.fakes.acme_drive;
    const file = tree.add('moving/target.txt', 'Before.');
    const { id } = await connect(api, member, 'acme_drive');
    onDownload((entry) => {
      if (entry.id !== file.id) return;
      onDownload(null);
      tree.edit('moving/target.txt', 'After.');
    });
    const [result] = await importFiles(member, { connection_id: id, files: [{ file_id: file.id }] });
    await untilRun(member, result?.job_id ?? '', 'succeeded');
    const before = downloads.length;
    const [again] = await importFiles(member, { connection_id: id, files: [{ file_id: file.id }] });
    await untilRun(member, again?.job_id ?? '', 'succeeded');
    const [document] = await byName(member, [again as ImportResultView]);
    expect(document).include({ id: result?.document_id, content: 'After.' });
    // What was sent may be newer than what the provider has said of it.
    expect(downloads.length - before).most(1);
  });

  it('200: at once where the client does not wait; the job counts the files', async () => {
    const member = await api.signUp();
    api.fakes.acme_drive.tree.add('slow/file.txt', 'Slow.');
    const { id } = await connect(api, member, 'acme_drive');
    const [result] = await importFiles(member, { connection_id: id, files: [{ path: 'slow' }] }, { wait: 0 });
    expect(result).include({ document_id: null, status: 'queued' });
    const job = await untilRun(member, result?.job_id ?? '', 'succeeded');
    expect(job).deep.include({ kind: 'import', progress: { done: 1, total: 1, unit: 'files' } });
    const { body } = await member.get(`/jobs?connection_id=${id}`, 200);
    expect(Object(body).items).length(1);
  });

  it('200: lists ten thousand files without carrying them along', async () => {
    const member = await api.signUp();
    const { tree } = api.fakes.acme_drive;
    for (let n = 0; n < 10_000; n++) tree.add(`huge/${n}.txt`, '');
    const { id } = await connect(api, member, 'acme_drive');
    const [result] = await importFiles(member, { connection_id: id, files: [{ path: 'huge' }] }, { wait: 0 });
    const jobId = result?.job_id ?? '';
    const jobOf = async () => Object((await member.get(`/jobs/${jobId}`, 200)).body);
    await until('all are listed', async () => (await jobOf()).progress?.total === 10_000, 60_000);
    await member.post(`/jobs/${jobId}/cancel`, {}, 202);
    await untilJob(member, jobId, 'cancelled', 60_000);
    const { events } = await api.container.temporal.client.workflow.getHandle(jobId).fetchHistory();
    const sizes = (events ?? []).map((event) => JSON.stringify(event).length);
    expect(sizes.length).below(10_000);
    expect(Math.max(...sizes)).below(64 * 1_024);
    tree.remove('huge');
  });

  it('200: the same for the same Idempotency-Key', async () => {
    const member = await api.signUp();
    api.fakes.acme_drive.tree.add('once/only.txt', 'Once.');
    const { id } = await connect(api, member, 'acme_drive');
    const body = { connection_id: id, files: [{ path: 'once' }] };
    const headers = { 'idempotency-key': 'import-1' };
    const first = await importFiles(member, body, { headers });
    expect(await importFiles(member, body, { headers })).deep.equal(first);
    expect(await api.container.db('import_runs').where({ connectionId: id })).length(1);
  });

  it('403: into a folder that is only to be read', async () => {
    const admin = await api.signUp();
    const member = await signUpColleague(api, admin);
    const { id } = await connect(api, member, 'acme_drive');
    const { id: root } = await api.container
      .db('folders')
      .where({ orgId: admin.orgId, systemRole: 'org_root' })
      .first('id');
    const body = { connection_id: id, files: [{ path: 'x' }], target_folder_id: root };
    await member.post('/documents/import-from-connector', body, 403);
  });

  it('409: by a connection whose consent has ended', async () => {
    const member = await api.signUp();
    const { id } = await connect(api, member, 'acme_drive');
    api.fakes.acme_drive.revokeGrants();
    await member.patch(`/connectors/connections/${id}/refresh`, {}, 200);
    const body = { connection_id: id, files: [{ path: 'x' }] };
    const answer = await member.post('/documents/import-from-connector', body, 409);
    expect(answer.body).include({ code: 'needs_reauth' });
  });

  it('404: for a connection of another user, and into a folder that is not there', async () => {
    const [member, other] = [await api.signUp(), await api.signUp()];
    const { id } = await connect(api, member, 'acme_drive');
    const body = { connection_id: id, files: [{ path: 'x' }] };
    await other.post('/documents/import-from-connector', body, 404);
    const target = { target_folder_id: '0198c5a2-0000-7000-8000-000000000000' };
    await member.post('/documents/import-from-connector', { ...body, ...target }, 404);
  });

  it('422: for files that are not told by anything, and for none', async () => {
    const member = await api.signUp();
    const { id } = await connect(api, member, 'acme_drive');
    for (const files of [[], [{ folder: 'x' }], [{ path: 'x', id: 'y' }]]) {
      await member.post('/documents/import-from-connector', { connection_id: id, files }, 422);
    }
  });

  it('401: without a token', async () => {
    await api.anonymous.post('/documents/import-from-connector', {}, 401);
  });
});
