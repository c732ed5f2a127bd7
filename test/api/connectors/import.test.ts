import { expect } from 'chai';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { aColleague, rootOf } from '#test/support/builders.ts';
import type { Member } from '#test/support/client.ts';
import { type ConnectorStack, connect, connectorStack } from '#test/support/connector-stack.ts';
import { connectSynced, documentCalled, importFiles, importStack, shelf } from '#test/support/import-stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

describe('an import from a connection', () => {
  let api: ConnectorStack;
  let member: Member;
  let id: string;
  before(async () => {
    api = await importStack();
  });
  beforeEach(async () => {
    member = await api.signUp();
    ({ id } = await connect(api, member, 'acme_drive'));
  });

  const importAll = (files: object[], options = {}) => importFiles(member, { connection_id: id, files }, options);
  const jobOf = async (jobId: string) => Object((await member.get(`/jobs/${jobId}`, 200)).body);

  it('reports an error for each file that fails, and imports the other files', async () => {
    const { tree } = api.fakes.acme_drive;
    tree.add('some/good.txt', 'Good.');
    tree.add('some/odd\u0000na\u202eme\n.txt', 'Odd.');
    tree.add('some/map', '', 'application/vnd.google-apps.map');
    const results = await importAll([{ path: 'some' }, { file_id: 'nowhere' }]);
    const codes = results.map(({ status, error }) => error?.code ?? status);
    expect(codes.sort()).deep.equal(['queued', 'queued', 'remote_file_not_found', 'unsupported_format']);
    expect(results.find(({ file_id }) => file_id === 'nowhere')).include({ document_id: null, status: 'failed' });
    expect(await shelf(member)).length(2);
  });

  it('is answered at once without Prefer: wait, and its job counts the files', async () => {
    const { tree, holdNext } = api.fakes.acme_drive;
    tree.add('slow/file.txt', 'Slow.');
    const { release } = holdNext();
    const [result] = await importAll([{ path: 'slow' }], { wait: 0 });
    release();
    expect(result).include({ document_id: null, status: 'queued' });
    const job = await untilRun(member, result?.job_id ?? '', 'succeeded');
    expect(job).deep.include({ kind: 'import', progress: { done: 1, total: 1, unit: 'files' } });
    const { items } = Object((await member.get(`/jobs?connection_id=${id}`, 200)).body);
    const { display_name: connection_name } = Object((await member.get(`/connectors/connections/${id}`, 200)).body);
    expect(items).length(1);
    expect(items[0]).include({ connection_id: id, connection_name });
    expect(connection_name).a('string');
  });

  it('of ten thousand files keeps its workflow history small, and can be cancelled', async () => {
    const { tree } = api.fakes.acme_drive;
    for (let n = 0; n < 10_000; n++) tree.add(`huge/${n}.txt`, '');
    const [{ job_id: jobId } = { job_id: '' }] = await importAll([{ path: 'huge' }], { wait: 0 });
    await until('all are listed', async () => (await jobOf(jobId)).progress?.total === 10_000);
    await member.post(`/jobs/${jobId}/cancel`, {}, 202);
    await untilJob(member, jobId, 'cancelled');
    const { events } = await api.container.temporal.client.workflow.getHandle(jobId).fetchHistory();
    const sizes = (events ?? []).map((event) => JSON.stringify(event).length);
    expect(sizes.length).below(10_000);
    expect(Math.max(...sizes)).below(64 * 1_024);
    tree.remove('huge');
  });

  it('that is cancelled reports the remaining files as cancelled', async () => {
    const fake = api.fakes.acme_drive;
    fake.tree.add('never/a.txt');
    const hold = fake.holdNext();
    const results = importAll([{ path: 'never/a.txt' }]);
    await hold.arrived;
    const [job] = Object((await member.get('/jobs?kind=import', 200)).body).items;
    await member.post(`/jobs/${job.id}/cancel`, {}, 202);
    hold.release();
    const [result] = await results;
    expect(result).deep.include({ status: 'failed', document_id: null });
    expect(result?.error?.code).equal('cancelled');
  });

  it('is refused if the folder is read-only (403) or missing (404), or if the grant is revoked (409)', async () => {
    const path = '/documents/import-from-connector';
    const body = { connection_id: id, files: [{ path: 'x' }] };
    const missing = '0198c5a2-0000-7000-8000-000000000000';
    await member.post(path, { ...body, target_folder_id: missing }, 404);
    const colleague = await aColleague(api, member);
    const { id: hers } = await connect(api, colleague, 'acme_drive');
    const target = { target_folder_id: await rootOf(member, 'org_root') };
    await colleague.post(path, { ...body, connection_id: hers, ...target }, 403);
    api.fakes.acme_drive.revokeGrants();
    await member.patch(`/connectors/connections/${id}/refresh`, {}, 200);
    expect((await member.post(path, body, 409)).body).include({ code: 'needs_reauth' });
  });

  describe('during a sync', () => {
    /** Holds the next download. @returns how to let it go on, once it has arrived */
    async function nextDownload(): Promise<() => void> {
      const fake = api.fakes.acme_drive;
      let hold = fake.holdNext();
      for (;;) {
        await hold.arrived;
        if (fake.calls.at(-1)?.url.searchParams.get('alt') === 'media') return hold.release;
        const { release } = hold;
        hold = fake.holdNext();
        release();
      }
    }

    it('retries a file that failed before, although the provider reports no change', async () => {
      const fake = api.fakes.acme_drive;
      fake.tree.add('refused/a.txt');
      const synced = await connectSynced(api, 'acme_drive', 'refused');
      await synced.run();
      fake.tree.add('refused/late.txt');
      const [release, refused] = [nextDownload(), synced.run()];
      const send = await release;
      fake.failNext(1, { status: 400, json: { error: { code: 400, message: 'Not now.' } } });
      send();
      expect(await refused).include({ mode: 'delta', added: 0, failed: 1 });
      expect(await synced.run()).include({ mode: 'delta', added: 1, failed: 0 });
      expect(await synced.run()).include({ mode: 'delta', added: 0, failed: 0 });
      expect(await synced.names()).deep.equal(['a.txt', 'late.txt']);
    });

    /** Begins a sync of new files, whose downloads are called one by one: this stack has no workers. */
    async function stepsOf(folder: string, files: number) {
      const stack = await connectorStack();
      const fake = stack.fakes.acme_drive;
      for (let n = 1; n <= files; n += 1) fake.tree.add(`${folder}/${n}.txt`);
      const synced = await connectSynced(stack, 'acme_drive', folder);
      const { body } = await synced.member.post(`${synced.path}/sync`, {}, 202);
      const of = { orgId: synced.member.orgId, connectionId: synced.id, runId: Object(body).id };
      const { signal } = new AbortController();
      const { importSteps } = stack.container;
      await importSteps.begin(of);
      await importSteps.list(of, signal);
      const fetch = (n: number, attempt = 1) => importSteps.fetch({ ...of, n }, { signal, attempt });
      return { ...synced, of, stack, fake, fetch };
    }

    it('rejects a file with rate_limited while 16 downloads of the organization run, and imports it afterwards', async () => {
      const { fake, fetch } = await stepsOf('many', 17);
      const held = Array.from({ length: 16 }, () => fake.holdNext());
      const fetched = held.map((_, index) => fetch(index + 1));
      await Promise.all(held.map(({ arrived }) => arrived));
      expect(await appErrorCode(fetch(17))).equal('rate_limited');
      for (const { release } of held) release();
      expect(await Promise.all(fetched)).deep.equal(Array(16).fill({ status: 'added', code: null }));
      expect(await fetch(17)).deep.equal({ status: 'added', code: null });
    });

    it('gives up a file after ten failed attempts, but not while the whole provider is unavailable', async () => {
      const { fake, fetch } = await stepsOf('poisonous', 1);
      const failing = (attempt: number, faults: number) => {
        fake.failNext(faults, { status: 500, json: { error: { code: 500, message: 'Internal Error' } } });
        return fetch(1, attempt);
      };
      expect(await appErrorCode(failing(9, 1))).equal('provider_unavailable');
      expect(await appErrorCode(failing(10, 2))).equal('provider_unavailable');
      expect(await failing(10, 1)).deep.equal({ status: 'failed', code: 'provider_unavailable' });
    });

    it('leaves no document, no file and no open job when the connection is deleted during the download', async () => {
      const { fake, fetch, of, stack, ...synced } = await stepsOf('cut off', 1);
      const hold = fake.holdNext();
      const fetched = appErrorCode(fetch(1));
      await hold.arrived;
      await synced.member.delete(synced.path, 204);
      hold.release();
      expect(await fetched).equal('connection_not_found');
      expect(await synced.names()).deep.equal([]);
      const keys = (await stack.container.blobs.list({ after: `${of.orgId}/`, limit: 1 })).map(({ key }) => key);
      expect(keys.filter((key) => key.startsWith(of.orgId))).deep.equal([]);
      await stack.container.importSteps.recordCancellation({ ...of, attempt: 1 });
      const job = await synced.member.get(`/jobs/${syncWorkflowId(synced.id)}`, 200);
      expect(job.body).include({ status: 'cancelled' });
    });

    it('leaves a document as it is when a new revision has the same content', async () => {
      const { tree, downloads } = api.fakes.acme_drive;
      // Documents of Google itself have no checksum.
      const document = tree.add('same/a', 'Equal.', 'application/vnd.google-apps.document');
      const synced = await connectSynced(api, 'acme_drive', 'same');
      await synced.run();
      tree.edit('same/a', 'Equal.');
      expect(await synced.run()).include({ unchanged: 1, updated: 0, failed: 0 });
      expect(downloads.filter((each) => each === document.id)).length(2);
      const { items } = Object((await synced.member.get('/jobs?kind=ingest', 200)).body);
      expect(items).length(1);
    });

    /** Changes a document while a sync downloads its file, which was edited and renamed. @returns what is left */
    async function changedMeanwhile(folder: string, change: (member: Member, document: string) => Promise<unknown>) {
      const { tree } = api.fakes.acme_drive;
      tree.add(`${folder}/a.txt`);
      const synced = await connectSynced(api, 'acme_drive', folder);
      await synced.run();
      tree.rename(`${folder}/a.txt`, 'theirs.txt');
      tree.edit(`${folder}/theirs.txt`, 'Edited.');
      const arrived = nextDownload();
      const running = synced.run();
      const send = await arrived;
      await change(synced.member, `/documents/${(await documentCalled(synced.member, 'a.txt')).id}`);
      send();
      return { counts: await running, names: await synced.names() };
    }

    it('does not restore a document that the user deletes, or undo a rename by the user, during the download', async () => {
      const deleted = await changedMeanwhile('unwanted', (user, document) => user.delete(document, 204));
      expect(deleted.counts).include({ updated: 0, added: 0 });
      expect(deleted.names).deep.equal([]);
      const named = await changedMeanwhile('named', (user, document) => user.patch(document, { name: 'mine' }, 200));
      expect(named.counts).include({ updated: 1, failed: 0 });
      expect(named.names).deep.equal(['mine']);
    });

    it('resumes by itself if it parks for lack of a consent although the user has just given the consent', async () => {
      api.fakes.acme_drive.tree.add('consented/a.txt');
      const synced = await connectSynced(api, 'acme_drive', 'consented');
      const { id: runId, job_id: jobId } = await synced.run();
      const error = { code: 'needs_reauth', message: 'As of a call before the consent.' };
      const of = { orgId: synced.member.orgId, connectionId: synced.id };
      await api.container.importSteps.recordParked({ ...of, runId, error });
      expect((await synced.member.get(`/jobs/${jobId}`, 200)).body).include({ status: 'parked' });
      await untilJob(synced.member, jobId, 'succeeded');
    });
  });
});
