import type { ScheduleHandle } from '@temporalio/client';
import { expect } from 'chai';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { createSyncSchedules } from '#src/temporal/schedules.ts';
import type { Member } from '#test/support/client.ts';
import { documentCalled, mirrorsChanges } from '#test/support/connector-provider-cases.ts';
import { type ConnectorStack, connect } from '#test/support/connector-stack.ts';
import {
  connectSynced,
  countsOf,
  importStack,
  noChanges,
  shelf,
  sync,
  syncsOf,
  untilIngested,
} from '#test/support/import-stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('POST /connectors/connections/{connection_id}/sync', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  const isThere = (schedule: ScheduleHandle) =>
    schedule.describe().then(
      () => true,
      () => false,
    );

  /** Temporal applies a change to a schedule asynchronously. */
  const untilPaused = (schedule: ScheduleHandle, paused: boolean) =>
    until(`the schedule is ${paused ? '' : 'not '}paused`, async () =>
      schedule.describe().then(
        ({ state }) => state.paused === paused,
        () => false,
      ),
    );

  it('202: mirrors edits, renames, moves, deletions and restorations', () =>
    mirrorsChanges({ api, provider: 'acme_drive' }));

  it('202: keeps documents that the user changed here, and marks them as detached', async () => {
    const { tree } = api.fakes.acme_drive;
    for (const name of ['mine.txt', 'named.txt']) tree.add(`kept/${name}`);
    const { member, id } = await connectSynced(api, 'acme_drive', 'kept');
    await sync(member, id);
    const mine = await documentCalled(member, 'mine.txt');
    expect(mine.import_detached).equal(false);
    const file = { name: 'mine.txt', content: 'My own words.' };
    await member.upload(`/documents/${mine.id}`, file, 200, { method: 'PATCH' });
    const named = await documentCalled(member, 'named.txt');
    await member.patch(`/documents/${named.id}`, { name: 'Called otherwise' }, 200);
    tree.edit('kept/mine.txt', 'Theirs.');
    tree.rename('kept/named.txt', 'again.txt');
    expect(countsOf(await sync(member, id))).deep.equal({ ...noChanges, unchanged: 2 });
    tree.remove('kept/mine.txt');
    expect(await sync(member, id)).include({ deleted: 0 });
    await untilIngested(member);
    const { body } = await member.get(`/documents/${mine.id}`, 200);
    expect(body).include({ content: 'My own words.', import_detached: true });
    expect(await shelf(member)).deep.equal(['Called otherwise', 'mine.txt']);
  });

  it('202: returns the running sync to concurrent requests', async () => {
    const fake = api.fakes.acme_drive;
    fake.tree.add('single/a.txt');
    const { member, id, path } = await connectSynced(api, 'acme_drive', 'single');
    // The sync cannot end before every request has been answered.
    const hold = fake.holdNext();
    const answers = await Promise.all(Array.from({ length: 4 }, () => member.post(`${path}/sync`, {}, 202)));
    hold.release();
    expect(new Set(answers.map(({ body }) => Object(body).id)).size).equal(1);
    await untilJob(member, syncWorkflowId(id), 'succeeded');
    expect(await syncsOf(member, id)).length(1);
  });

  it('creates a Temporal schedule from the settings, whose runs queue the job', async () => {
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

  it('applies the newest of concurrent schedule changes, and removes the schedule of a deleted connection', async () => {
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
    // A run that finds no connection leaves its schedule to the sweeper, after a grace period.
    await until('the schedule is gone again', async () => !(await isThere(schedule)));
  });

  it('makes up for missed runs by one, and skips runs that overlap a sync', async () => {
    const fake = api.fakes.acme_drive;
    fake.tree.add('missed/a.txt');
    const daily = { enabled: true, interval_minutes: undefined, cron: '0 4 * * *' };
    const { member, id } = await connectSynced(api, 'acme_drive', 'missed', daily);
    const schedule = api.container.temporal.client.schedule.getHandle(syncWorkflowId(id));
    await until('its schedule is there', () => isThere(schedule));
    const tenDays = { start: new Date('2026-01-01T00:00:00Z'), end: new Date('2026-01-10T12:00:00Z') };
    await schedule.backfill({ ...tenDays, overlap: 'SKIP' });
    await until('it was synced', async () => (await syncsOf(member, id))[0]?.status === 'succeeded');
    expect((await schedule.describe()).info).include({ numActionsTaken: 1, numActionsSkippedOverlap: 9 });
    expect(await syncsOf(member, id)).length(1);

    fake.revokeGrants();
    await sync(member, id, 'parked');
    const queued = await api.container.syncs.queueScheduled({ orgId: member.orgId, connectionId: id });
    expect(queued).deep.equal({ jobId: null, reason: 'the previous sync is still open.' });
    expect(await syncsOf(member, id)).length(2);
  });

  it('is not started by a schedule for a disabled user', async () => {
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

  it('422: for an impossible or too frequent schedule, and for a folder of another organization', async () => {
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

describe('GET /connectors/connections/{connection_id}/syncs', () => {
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

  it('200: lists syncs with their results page by page, newest first', async () => {
    expect((await member.get(path, 200)).body).deep.equal({ items: [], next_cursor: null });
    const first = await sync(member, id);
    const second = await sync(member, id);
    expect(first).include({ ...noChanges, added: 1, last_error: null });
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
