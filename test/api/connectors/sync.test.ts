import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import type { ScheduleHandle } from '@temporalio/client';
import { expect } from 'chai';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { oauthConnectorProviders } from '#src/domain/connector-providers.ts';
import { createSyncSchedules } from '#src/temporal/sync-schedules.ts';
import type { Member } from '#test/support/client.ts';
import { type ConnectorStack, connect, s3Fields } from '#test/support/connector-stack.ts';
import { connectSynced, importStack, type SyncRunView, shelf, sync, syncsOf } from '#test/support/import-stack.ts';
import { openBucket } from '#test/support/s3.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

const counts = ({ added, updated, unchanged, deleted, failed }: SyncRunView) => ({
  ...{ added, updated, unchanged, deleted, failed },
});
const none = { added: 0, updated: 0, unchanged: 0, deleted: 0, failed: 0 };

describe('POST /connectors/connections/{connection_id}/sync', function () {
  this.timeout(120_000);
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  const ingested = async (member: Member) =>
    until('all is ingested', async () => {
      const { body } = await member.get('/jobs/summary?kind=ingest', 200);
      return Object(body).succeeded === Object(body).total;
    });
  const documentOf = async (member: Member, name: string) => {
    const { items } = Object((await member.get('/documents?limit=100', 200)).body);
    return items.find((item: { name: string }) => item.name === name);
  };

  const isThere = (schedule: ScheduleHandle) =>
    schedule.describe().then(
      () => true,
      () => false,
    );

  /** The engine takes a change in, and has it a moment later. */
  const untilPaused = (schedule: ScheduleHandle, paused: boolean) =>
    until(`the schedule is ${paused ? '' : 'not '}paused`, async () =>
      schedule.describe().then(
        ({ state }) => state.paused === paused,
        () => false,
      ),
    );

  for (const provider of oauthConnectorProviders) {
    it(`202: mirrors edits, names, places, deletions and restorations of ${provider}`, async () => {
      const { tree, downloads } = api.fakes[provider];
      const root = `synced by ${provider}`;
      for (const name of ['a.txt', 'b.txt', 'c.txt', 'sub/d.txt', 'sub/e.txt']) tree.add(`${root}/${name}`);
      tree.add('elsewhere/x.txt');
      const { member, id } = await connectSynced(api, provider, root);
      const first = await sync(member, id);
      expect(first).include({ mode: 'full', ...none, added: 5 });
      expect(await shelf(member)).deep.equal(['a.txt', 'b.txt', 'c.txt', 'sub/d.txt', 'sub/e.txt']);
      await ingested(member);

      let before = downloads.length;
      expect(counts(await sync(member, id))).deep.equal(none);
      tree.edit(`${root}/a.txt`, 'Edited.');
      tree.rename(`${root}/b.txt`, 'renamed.txt');
      tree.move(`${root}/c.txt`, `${root}/sub`);
      const gone = tree.remove(`${root}/sub/d.txt`);
      tree.add(`${root}/new/f.txt`);
      const second = await sync(member, id);
      expect(second).include({ mode: 'delta', added: 1, updated: 3, deleted: 1, failed: 0 });
      expect(await shelf(member)).deep.equal(['a.txt', 'new/f.txt', 'renamed.txt', 'sub/c.txt', 'sub/e.txt']);
      expect(downloads.length - before).equal(2);

      before = downloads.length;
      tree.restore(gone);
      tree.rename(`${root}/sub`, 'below');
      const third = await sync(member, id);
      expect(third).include({ added: 1, deleted: 0, failed: 0 });
      const names = ['a.txt', 'below/c.txt', 'below/d.txt', 'below/e.txt', 'new/f.txt', 'renamed.txt'];
      expect(await shelf(member)).deep.equal(names);
      expect(downloads.length - before).equal(1);

      tree.remove(`${root}/below`);
      expect(await sync(member, id)).include({ deleted: 3 });
      expect(await shelf(member)).deep.equal(['a.txt', 'new/f.txt', 'renamed.txt']);
      await member.delete(`/documents/${(await documentOf(member, 'a.txt')).id}`, 204);
      api.fakes[provider].forgetChanges();
      expect(await sync(member, id)).include({ mode: 'full', ...none, unchanged: 3 });
      expect(await syncsOf(member, id)).length(6);
    });
  }

  it('202: mirrors edits, names and deletions of a bucket, which tells all there is each time', async function () {
    const bucket = await openBucket(this);
    const { client } = bucket;
    const Bucket = bucket.settings.bucket;
    const put = (Key: string, Body = Key) => client.send(new PutObjectCommand({ Bucket, Key, Body }));
    for (const key of ['in/a.txt', 'in/b.txt', 'in/sub/c.txt', 'in/d.txt', 'out/x.txt']) await put(key);
    const member = await api.signUp();
    const { id } = Object((await member.post('/connectors/acme_s3/connections', s3Fields(bucket), 201)).body);
    const wanted = { enabled: false, folder: 'in', delete_missing: true };
    await member.patch(`/connectors/connections/${id}`, { config: { sync: wanted } }, 200);
    expect(await sync(member, id)).include({ mode: 'full', ...none, added: 4 });
    expect(counts(await sync(member, id))).deep.equal({ ...none, unchanged: 4 });

    await put('in/a.txt', 'Edited.');
    for (const Key of ['in/b.txt', 'in/d.txt']) await client.send(new DeleteObjectCommand({ Bucket, Key }));
    await put('in/renamed.txt', 'in/d.txt');
    const third = await sync(member, id);
    expect(third).include({ mode: 'full', ...none, added: 1, updated: 1, unchanged: 1, deleted: 2 });
    expect(await shelf(member)).deep.equal(['a.txt', 'renamed.txt', 'sub/c.txt']);
    await ingested(member);
    const edited = await documentOf(member, 'a.txt');
    expect((await member.get(`/documents/${edited.id}`, 200)).body).include({ content: 'Edited.' });
  });

  it('202: keeps what somebody has changed here, and says so', async () => {
    const { tree } = api.fakes.acme_drive;
    for (const name of ['mine.txt', 'named.txt']) tree.add(`kept/${name}`);
    const { member, id } = await connectSynced(api, 'acme_drive', 'kept');
    await sync(member, id);
    const mine = await documentOf(member, 'mine.txt');
    expect(mine.import_detached).equal(false);
    const file = { name: 'mine.txt', content: 'My own words.' };
    await member.upload(`/documents/${mine.id}`, file, 200, { method: 'PATCH' });
    const named = await documentOf(member, 'named.txt');
    await member.patch(`/documents/${named.id}`, { name: 'Called otherwise' }, 200);
    tree.edit('kept/mine.txt', 'Theirs.');
    tree.rename('kept/named.txt', 'again.txt');
    expect(counts(await sync(member, id))).deep.equal({ ...none, unchanged: 2 });
    tree.remove('kept/mine.txt');
    expect(await sync(member, id)).include({ deleted: 0 });
    await ingested(member);
    const { body } = await member.get(`/documents/${mine.id}`, 200);
    expect(body).include({ content: 'My own words.', import_detached: true });
    expect(await shelf(member)).deep.equal(['Called otherwise', 'mine.txt']);
  });

  it('202: asks somebody before it deletes most of what there is', async () => {
    const { tree } = api.fakes.acme_drive;
    for (let n = 0; n < 30; n++) tree.add(`emptied/${n}.txt`);
    const { member, id, path } = await connectSynced(api, 'acme_drive', 'emptied');
    await sync(member, id);
    for (let n = 0; n < 25; n++) tree.remove(`emptied/${n}.txt`);
    const parked = await sync(member, id, 'parked');
    expect(parked).deep.include({ deleted: 0, status: 'parked' });
    expect(parked.last_error?.code).equal('mass_deletion');
    expect(await shelf(member)).length(30);
    await member.post(`/jobs/${parked.job_id}/retry`, {}, 202);
    await untilJob(member, parked.job_id, 'parked');

    const { body } = await member.post(`${path}/sync`, { accept_deletions: true }, 202);
    expect(Object(body).id).equal(parked.id);
    await untilJob(member, parked.job_id, 'succeeded');
    expect((await syncsOf(member, id))[0]).include({ deleted: 25, status: 'succeeded' });
    expect(await shelf(member)).length(5);
  });

  it('202: is one at a time; a second one is the one that is under way', async () => {
    const fake = api.fakes.acme_drive;
    fake.tree.add('single/a.txt');
    const { member, id, path } = await connectSynced(api, 'acme_drive', 'single');
    const asked = await Promise.all(Array.from({ length: 4 }, () => member.post(`${path}/sync`, {}, 202)));
    expect(new Set(asked.map(({ body }) => Object(body).id)).size).equal(1);
    await untilJob(member, syncWorkflowId(id), 'succeeded');
    expect(await syncsOf(member, id)).length(1);
  });

  it('keeps a schedule as the settings say, whose runs queue the job', async () => {
    api.fakes.acme_drive.tree.add('timed/a.txt');
    const { member, id, path } = await connectSynced(api, 'acme_drive', 'timed');
    const { client } = api.container.temporal;
    const schedule = client.schedule.getHandle(syncWorkflowId(id));
    await untilPaused(schedule, true);
    const config = { sync: { enabled: true, cron: '0 4 * * 1-5', folder: 'timed' } };
    await member.patch(path, { config }, 200);
    await untilPaused(schedule, false);
    expect((await schedule.describe()).policies.overlap).equal('SKIP');
    await schedule.trigger();
    await until('it was synced', async () => (await syncsOf(member, id))[0]?.status === 'succeeded');
    expect(await shelf(member)).deep.equal(['a.txt']);

    await schedule.pause('Maintenance.');
    await member.patch(path, { config: { sync: { ...config.sync, cron: '0 5 * * *' } } }, 200);
    for (const enabled of [false, true])
      await member.patch(path, { config: { sync: { ...config.sync, enabled } } }, 200);
    expect((await schedule.describe()).state).include({ paused: true, note: 'Maintenance.' });
    await member.delete(path, 204);
    await until('the schedule is gone', async () => !(await isThere(schedule)));
    expect(await shelf(member)).deep.equal(['a.txt']);
  });

  it('has schedules as the newest of changes at the same time say, and none of a connection that is gone', async () => {
    const { member, id, path } = await connectSynced(api, 'acme_drive', '');
    const change = (minute: number) =>
      member.patch(path, { config: { sync: { enabled: true, cron: `${minute} 4 * * *` } } }, 200);
    await Promise.all([1, 2, 3, 4].map(change));
    const { sync: stored } = Object((await member.get(path, 200)).body).config;
    const { client } = api.container.temporal;
    const schedule = client.schedule.getHandle(syncWorkflowId(id));
    await until('the schedule is the newest', async () => {
      const [calendar] = (await schedule.describe()).spec.calendars ?? [];
      return calendar?.minute?.[0]?.start === Number.parseInt(stored.cron, 10);
    });
    await member.delete(path, 204);
    await until('the schedule is gone', async () => !(await isThere(schedule)));
    await createSyncSchedules(api.container.temporal).set(
      { orgId: member.orgId, connectionId: id },
      { isOn: true, everyMinutes: 60 },
    );
    await schedule.trigger();
    // The run gives who makes the connection some seconds, and leaves the schedule to the sweeper.
    await until('the schedule is gone again', async () => !(await isThere(schedule)), 60_000);
  });

  it('makes up for turns that were missed by one, and leaves out those that fall into a sync', async () => {
    const fake = api.fakes.acme_drive;
    fake.tree.add('missed/a.txt');
    const daily = { enabled: true, interval_minutes: undefined, cron: '0 4 * * *' };
    const { member, id } = await connectSynced(api, 'acme_drive', 'missed', daily);
    const schedule = api.container.temporal.client.schedule.getHandle(syncWorkflowId(id));
    await until('its schedule is there', () => isThere(schedule));
    const [end, dayMs] = [new Date(), 86_400_000];
    await schedule.backfill({ start: new Date(end.getTime() - 10 * dayMs), end, overlap: 'SKIP' });
    await until('it was synced', async () => (await syncsOf(member, id))[0]?.status === 'succeeded', 60_000);
    expect((await schedule.describe()).info).include({ numActionsTaken: 1, numActionsSkippedOverlap: 9 });
    expect(await syncsOf(member, id)).length(1);

    fake.revokeGrants();
    await sync(member, id, 'parked');
    const queued = await api.container.syncs.queueScheduled({ orgId: member.orgId, connectionId: id });
    expect(queued).deep.equal({ jobId: null, reason: 'the last sync is still under way, or waits for somebody.' });
    expect(await syncsOf(member, id)).length(2);
  });

  it('is not begun by a schedule for somebody who was disabled', async () => {
    const { member, id } = await connectSynced(api, 'acme_drive', 'timed', { enabled: true });
    await api.container.db('users').where({ id: member.userId }).update({ disabledAt: new Date() });
    const queued = await api.container.syncs.queueScheduled({ orgId: member.orgId, connectionId: id });
    expect(queued).include({ jobId: null });
    expect(await api.container.db('import_runs').where({ connectionId: id })).length(0);
  });

  it('409: without config.sync', async () => {
    const member = await api.signUp();
    const { id } = await connect(api, member, 'acme_drive');
    await member.post(`/connectors/connections/${id}/sync`, {}, 409);
  });

  it('404: for a connection of another user', async () => {
    const { path } = await connectSynced(api, 'acme_drive', 'timed');
    const other = await api.signUp();
    await other.post(`${path}/sync`, {}, 404);
  });

  it('422: with another field', async () => {
    const { member, path } = await connectSynced(api, 'acme_drive', 'timed');
    await member.post(`${path}/sync`, { force: true }, 422);
  });

  it('401: without a token', async () => {
    const { path } = await connectSynced(api, 'acme_drive', 'timed');
    await api.anonymous.post(`${path}/sync`, {}, 401);
  });

  it('422: a schedule that nobody can keep, or into a folder of others', async () => {
    const { member, path } = await connectSynced(api, 'acme_drive', 'timed');
    const target = '0198c5a2-0000-7000-8000-000000000000';
    for (const sync of [
      { enabled: true, cron: '61 * * * *' },
      { enabled: true, cron: '*/2 * * * *' },
      { enabled: true, cron: '0 0 31 2 *' },
      { enabled: false, target_folder_id: target },
    ]) {
      await member.patch(path, { config: { sync } }, 422);
    }
  });
});

describe('GET /connectors/connections/{connection_id}/syncs', function () {
  this.timeout(120_000);
  let api: ConnectorStack;
  let member: Member;
  let id: string;
  let path: string;
  before(async () => {
    api = await importStack();
    api.fakes.acme_drive.tree.add('listed/a.txt');
    const synced = await connectSynced(api, 'acme_drive', 'listed');
    [member, id, path] = [synced.member, synced.id, `${synced.path}/syncs`];
  });

  it('200: tells of each what came of it, page by page, the newest first', async () => {
    expect((await member.get(path, 200)).body).deep.equal({ items: [], next_cursor: null });
    const first = await sync(member, id);
    const second = await sync(member, id);
    expect(first).include({ ...none, added: 1, last_error: null });
    const page = Object((await member.get(`${path}?limit=1`, 200)).body);
    expect(page.items).deep.equal([second]);
    const rest = Object((await member.get(`${path}?limit=1&cursor=${page.next_cursor}`, 200)).body);
    expect(rest).deep.equal({ items: [first], next_cursor: null });
  });

  it('400: with a cursor of another list', async () => {
    await member.get(`${path}?cursor=x`, 400);
  });

  it('404: for a connection of another user', async () => {
    await (await api.signUp()).get(path, 404);
  });

  it('422: with an unknown parameter', async () => {
    await member.get(`${path}?since=yesterday`, 422);
  });

  it('401: without a token', async () => {
    await api.anonymous.get(path, 401);
  });
});
