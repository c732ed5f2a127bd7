import { expect } from 'chai';
import { aColleague } from '#test/support/builders.ts';
import { importsAndSkipsUnchangedFiles, readDocuments } from '#test/support/connector-provider-cases.ts';
import { type ConnectorStack, connect } from '#test/support/connector-stack.ts';
import { type ImportResultView, importFiles, importStack, shelf } from '#test/support/import-stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

describe('POST /documents/import-from-connector', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  it('200: imports files and folders, and reports them as unchanged the next time', async () =>
    importsAndSkipsUnchangedFiles({ api, member: await api.signUp(), provider: 'acme_drive' }));

  it('200: reports an error for each file that fails, and imports the others', async () => {
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

  it('200: stores the downloaded content of a file that changes between list and download', async () => {
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
    const [document] = await readDocuments(member, [again as ImportResultView]);
    expect(document).include({ id: result?.document_id, content: 'After.' });
    // Drive sends no revision with the bytes, so the first import recorded the one it was told before.
    expect(downloads.length - before).equal(1);
  });

  it('200: immediately without Prefer: wait; the job counts the files', async () => {
    const member = await api.signUp();
    const { tree, holdNext } = api.fakes.acme_drive;
    tree.add('slow/file.txt', 'Slow.');
    const { id } = await connect(api, member, 'acme_drive');
    const { release } = holdNext();
    const [result] = await importFiles(member, { connection_id: id, files: [{ path: 'slow' }] }, { wait: 0 });
    release();
    expect(result).include({ document_id: null, status: 'queued' });
    const job = await untilRun(member, result?.job_id ?? '', 'succeeded');
    expect(job).deep.include({ kind: 'import', progress: { done: 1, total: 1, unit: 'files' } });
    const { body } = await member.get(`/jobs?connection_id=${id}`, 200);
    expect(Object(body).items).length(1);
  });

  it('200: keeps the workflow history small for ten thousand files', async () => {
    const member = await api.signUp();
    const { tree } = api.fakes.acme_drive;
    for (let n = 0; n < 10_000; n++) tree.add(`huge/${n}.txt`, '');
    const { id } = await connect(api, member, 'acme_drive');
    const [result] = await importFiles(member, { connection_id: id, files: [{ path: 'huge' }] }, { wait: 0 });
    const jobId = result?.job_id ?? '';
    const jobOf = async () => Object((await member.get(`/jobs/${jobId}`, 200)).body);
    await until('all are listed', async () => (await jobOf()).progress?.total === 10_000);
    await member.post(`/jobs/${jobId}/cancel`, {}, 202);
    await untilJob(member, jobId, 'cancelled');
    const { events } = await api.container.temporal.client.workflow.getHandle(jobId).fetchHistory();
    const sizes = (events ?? []).map((event) => JSON.stringify(event).length);
    expect(sizes.length).below(10_000);
    expect(Math.max(...sizes)).below(64 * 1_024);
    tree.remove('huge');
  });

  it('200: the same results for the same Idempotency-Key', async () => {
    const member = await api.signUp();
    api.fakes.acme_drive.tree.add('once/only.txt', 'Once.');
    const { id } = await connect(api, member, 'acme_drive');
    const body = { connection_id: id, files: [{ path: 'once' }] };
    const headers = { 'idempotency-key': 'import-1' };
    const first = await importFiles(member, body, { headers });
    expect(await importFiles(member, body, { headers })).deep.equal(first);
    expect(await api.container.db('import_runs').where({ connectionId: id })).length(1);
  });

  it('403: into a read-only folder', async () => {
    const admin = await api.signUp();
    const member = await aColleague(api, admin);
    const { id } = await connect(api, member, 'acme_drive');
    const { id: root } = await api.container
      .db('folders')
      .where({ orgId: admin.orgId, systemRole: 'org_root' })
      .first('id');
    const body = { connection_id: id, files: [{ path: 'x' }], target_folder_id: root };
    await member.post('/documents/import-from-connector', body, 403);
  });

  it('409: when the grant of the connection was revoked', async () => {
    const member = await api.signUp();
    const { id } = await connect(api, member, 'acme_drive');
    api.fakes.acme_drive.revokeGrants();
    await member.patch(`/connectors/connections/${id}/refresh`, {}, 200);
    const body = { connection_id: id, files: [{ path: 'x' }] };
    const answer = await member.post('/documents/import-from-connector', body, 409);
    expect(answer.body).include({ code: 'needs_reauth' });
  });

  it('404: for a connection of another user, and into a missing folder', async () => {
    const [member, other] = [await api.signUp(), await api.signUp()];
    const { id } = await connect(api, member, 'acme_drive');
    const body = { connection_id: id, files: [{ path: 'x' }] };
    await other.post('/documents/import-from-connector', body, 404);
    const target = { target_folder_id: '0198c5a2-0000-7000-8000-000000000000' };
    await member.post('/documents/import-from-connector', { ...body, ...target }, 404);
  });

  it('422: for files without an identifier, and for no files', async () => {
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
