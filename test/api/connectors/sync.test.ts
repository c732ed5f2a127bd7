import type { ScheduleHandle } from '@temporalio/client';
import { expect } from 'chai';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { createSyncSchedules } from '#src/temporal/schedules.ts';
import { aFolder, rootOf } from '#test/support/builders.ts';
import { type ConnectorStack, connect } from '#test/support/connector-stack.ts';
import {
  connectSynced,
  countsOf,
  documentCalled,
  importFiles,
  importStack,
  noChanges,
  shelf,
  sync,
  syncsOf,
  untilIngested,
} from '#test/support/import-stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('a sync', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  it('is listed with its results, newest first, page by page', async () => {
    api.fakes.acme_drive.tree.add('listed/a.txt');
    const { member, id, path } = await connectSynced(api, 'acme_drive', 'listed');
    const list = async (query = '') => Object((await member.get(`${path}/syncs${query}`, 200)).body);
    expect(await list()).deep.equal({ items: [], next_cursor: null });
    const [first, second] = [await sync(member, id), await sync(member, id)];
    expect(first).include({ ...noChanges, added: 1, last_error: null });
    const page = await list('?limit=1');
    expect(page.items).deep.equal([second]);
    expect(await list(`?limit=1&cursor=${page.next_cursor}`)).deep.equal({ items: [first], next_cursor: null });
    await member.get(`${path}/syncs?cursor=x`, 400);
  });

  it('keeps documents that the user has edited or renamed, and marks them as detached', async () => {
    const { tree } = api.fakes.acme_drive;
    for (const name of ['mine.txt', 'named.txt', 'away.txt']) tree.add(`kept/${name}`);
    const { member, id } = await connectSynced(api, 'acme_drive', 'kept');
    await sync(member, id);
    const [mine, named] = [await documentCalled(member, 'mine.txt'), await documentCalled(member, 'named.txt')];
    expect(mine.import_detached).equal(false);
    const file = { name: 'mine.txt', content: 'My own words.' };
    await member.upload(`/documents/${mine.id}`, file, 200, { method: 'PATCH' });
    await member.patch(`/documents/${named.id}`, { name: 'Called otherwise' }, 200);
    await member.delete(`/documents/${(await documentCalled(member, 'away.txt')).id}`, 204);
    for (const name of ['mine.txt', 'away.txt']) tree.edit(`kept/${name}`, 'Theirs.');
    tree.rename('kept/named.txt', 'again.txt');
    expect(countsOf(await sync(member, id))).deep.equal({ ...noChanges, unchanged: 3 });
    tree.remove('kept/mine.txt');
    expect(await sync(member, id)).include({ deleted: 0 });
    await untilIngested(member);
    const { body } = await member.get(`/documents/${mine.id}`, 200);
    expect(body).include({ content: 'My own words.', import_detached: true });
    expect(await shelf(member)).deep.equal(['Called otherwise', 'mine.txt']);
    await importFiles(member, { connection_id: id, files: [{ path: 'kept/away.txt' }] });
    expect(await shelf(member)).deep.equal(['Called otherwise', 'away.txt', 'mine.txt']);
  });

  it('runs once for concurrent requests', async () => {
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

  it('is refused with 409 or 422 when its settings are impossible', async () => {
    const member = await api.signUp();
    const { id } = await connect(api, member, 'acme_drive');
    const path = `/connectors/connections/${id}`;
    await member.post(`${path}/sync`, {}, 409);
    for (const wrong of [
      { enabled: true, interval_minutes: 4 },
      { enabled: true, cron: '61 * * * *' },
      { enabled: true, cron: '*/2 * * * *' },
      { enabled: true, cron: '0 0 31 2 *' },
      { enabled: false, target_folder_id: '0198c5a2-0000-7000-8000-000000000000' },
    ]) {
      await member.patch(path, { config: { sync: wrong } }, 422);
    }
  });

  describe('that finds deletions', () => {
    it('keeps a file that one page of changes reports as deleted and a later page as restored', async () => {
      const fake = api.fakes.acme_dropbox;
      const { tree } = fake;
      for (const name of ['x.txt', 'y.txt']) tree.add(`pages/${name}`);
      const { member, id } = await connectSynced(api, 'acme_dropbox', 'pages');
      await sync(member, id);
      fake.pageSize(1);
      const gone = tree.remove('pages/x.txt');
      tree.add('pages/z.txt');
      const [first, second] = [fake.holdNext(), fake.holdNext()];
      const run = sync(member, id);
      await first.arrived;
      first.release();
      await second.arrived;
      tree.restore(gone);
      second.release();
      expect(await run).include({ mode: 'delta', added: 1, deleted: 0 });
      fake.pageSize(1_000);
      expect(await shelf(member)).deep.equal(['x.txt', 'y.txt', 'z.txt']);
    });

    it('keeps files of the same name in other folders, also if the name differs in letter case', async () => {
      const { tree } = api.fakes.acme_drive;
      for (const name of ['A/one.txt', 'B/two.txt', 'reports/four.txt']) tree.add(`alike/${name}`);
      tree.rename('alike/B', 'A');
      const { member, id } = await connectSynced(api, 'acme_drive', 'alike');
      await sync(member, id);
      // The service merges both into one folder, named as in the path of the first file.
      tree.add('alike/Reports/three.txt');
      expect(await sync(member, id)).include({ mode: 'delta', added: 1 });
      expect(await shelf(member)).members(['A/one.txt', 'A/two.txt', 'reports/four.txt', 'reports/three.txt']);
      tree.remove('alike/Reports');
      expect(await sync(member, id)).include({ mode: 'delta', deleted: 1 });
      expect(await shelf(member)).members(['A/one.txt', 'A/two.txt', 'reports/four.txt']);
      tree.remove('alike/A');
      expect(await sync(member, id)).include({ mode: 'full', deleted: 1 });
      expect(await shelf(member)).members(['A/two.txt', 'reports/four.txt']);
      // Only one folder of that name is left, so the delta is unambiguous.
      tree.remove('alike/A');
      expect(await sync(member, id)).include({ mode: 'delta', deleted: 1 });
      expect(await shelf(member)).deep.equal(['reports/four.txt']);
    });

    it('waits for the user before it deletes most documents, and keeps files that are restored meanwhile', async () => {
      const { tree } = api.fakes.acme_drive;
      // A sync deletes at most 20 documents without asking.
      for (let n = 0; n < 23; n++) tree.add(`emptied/${n}.txt`);
      const { member, id, path } = await connectSynced(api, 'acme_drive', 'emptied');
      await sync(member, id);
      const remove = (from: number) =>
        Array.from({ length: 23 - from }, (_, n) => tree.remove(`emptied/${from + n}.txt`));
      const retry = () => member.post(`/jobs/${syncWorkflowId(id)}/retry`, {}, 202);

      const gone = remove(1);
      const parked = await sync(member, id, 'parked');
      expect(parked).deep.include({ deleted: 0, status: 'parked' });
      expect(parked.last_error?.code).equal('mass_deletion');
      expect(await shelf(member)).length(23);
      await retry();
      await untilJob(member, parked.job_id, 'parked');
      for (const one of gone.slice(1)) tree.restore(one);
      await retry();
      await untilJob(member, parked.job_id, 'succeeded');
      expect((await syncsOf(member, id))[0]).include({ status: 'succeeded', unchanged: 22, deleted: 1 });

      const goneAgain = remove(2);
      const parkedAgain = await sync(member, id, 'parked');
      for (const one of goneAgain.slice(-1)) tree.restore(one);
      const { body } = await member.post(`${path}/sync`, { accept_deletions: true }, 202);
      expect(Object(body).id).equal(parkedAgain.id);
      await untilJob(member, parkedAgain.job_id, 'succeeded');
      expect((await syncsOf(member, id))[0]).include({ status: 'succeeded', deleted: 20 });
      expect(await shelf(member)).members(['0.txt', '22.txt']);
    });
  });

  describe('after its settings changed', () => {
    it('moves documents to the new target folder, and deletes missing files once that is allowed', async () => {
      const { tree } = api.fakes.acme_drive;
      for (const name of ['a.txt', 'b.txt', 'c.txt']) tree.add(`set anew/${name}`);
      const { member, id, path } = await connectSynced(api, 'acme_drive', 'set anew', { delete_missing: false });
      await sync(member, id);
      tree.remove('set anew/a.txt');
      expect(await sync(member, id)).include({ mode: 'delta', deleted: 0 });
      const wanted = { enabled: false, interval_minutes: 5, folder: 'set anew', delete_missing: true };
      await member.patch(path, { config: { sync: wanted } }, 200);
      expect(await sync(member, id)).include({ mode: 'full', unchanged: 2, deleted: 1 });
      const target = await aFolder(member, await rootOf(member, 'personal_root'), 'Other place');
      await member.patch(path, { config: { sync: { ...wanted, target_folder_id: target.id } } }, 200);
      expect(await sync(member, id)).include({ mode: 'full', updated: 2 });
      expect(await shelf(member)).deep.equal(['Other place/b.txt', 'Other place/c.txt']);
      expect(await sync(member, id)).include({ mode: 'delta', updated: 0 });
    });

    it('reports that the target folder is deleted, until the user sets another folder', async () => {
      for (const name of ['a.txt', 'b.txt']) api.fakes.acme_drive.tree.add(`nowhere/${name}`);
      const { member, id, path } = await connectSynced(api, 'acme_drive', 'nowhere');
      const target = await aFolder(member, await rootOf(member, 'personal_root'));
      const wanted = { enabled: false, interval_minutes: 5, folder: 'nowhere' };
      await member.patch(path, { config: { sync: { ...wanted, target_folder_id: target.id } } }, 200);
      await member.delete(`/folders/${target.id}`, 204);
      const run = await sync(member, id);
      expect(run).include({ status: 'succeeded', failed: 2 });
      expect(run.last_error?.code).equal('folder_not_found');
      expect(run.last_error?.message).match(/^2 files failed, all of them with: /);
      expect(Object((await member.get(`/jobs/${run.job_id}`, 200)).body).last_error).deep.equal(run.last_error);
      await member.patch(path, { config: { sync: wanted } }, 200);
      expect(await sync(member, id)).include({ added: 2, failed: 0, last_error: null });
    });
  });

  describe('by a schedule', () => {
    const scheduleOf = (id: string) => api.container.temporal.client.schedule.getHandle(syncWorkflowId(id));
    /** Null without a schedule. Temporal applies a change to a schedule asynchronously. */
    const described = (schedule: ScheduleHandle) => schedule.describe().catch(() => null);
    const untilPaused = (schedule: ScheduleHandle, paused: boolean) =>
      until('the schedule is as wanted', async () => (await described(schedule))?.state.paused === paused);
    const untilGone = (schedule: ScheduleHandle) =>
      until('the schedule is gone', async () => (await described(schedule)) === null);
    const queue = (orgId: string, connectionId: string) => api.container.syncs.queueScheduled({ orgId, connectionId });

    it('follows changes of its settings, and stays paused if an operator paused its schedule', async () => {
      api.fakes.acme_drive.tree.add('timed/a.txt');
      const { member, id, path } = await connectSynced(api, 'acme_drive', 'timed');
      const schedule = scheduleOf(id);
      await untilPaused(schedule, true);
      const wanted = { enabled: true, cron: '0 4 * * 1-5', folder: 'timed' };
      await member.patch(path, { config: { sync: wanted } }, 200);
      await untilPaused(schedule, false);
      expect((await schedule.describe()).policies.overlap).equal('SKIP');
      await schedule.trigger();
      await until('it was synced', async () => (await syncsOf(member, id))[0]?.status === 'succeeded');
      expect(await shelf(member)).deep.equal(['a.txt']);
      await schedule.pause('Maintenance.');
      for (const change of [{ cron: '0 5 * * *' }, { enabled: false }, { enabled: true }]) {
        await member.patch(path, { config: { sync: { ...wanted, ...change } } }, 200);
      }
      expect((await schedule.describe()).state).include({ paused: true, note: 'Maintenance.' });
      await member.delete(path, 204);
      await untilGone(schedule);
      expect(await shelf(member)).deep.equal(['a.txt']);
    });

    it('follows the newest of concurrent changes; the schedule of a deleted connection is removed', async () => {
      const { member, id, path } = await connectSynced(api, 'acme_drive', '');
      const schedule = scheduleOf(id);
      await Promise.all(
        [1, 2, 3, 4].map((minute) =>
          member.patch(path, { config: { sync: { enabled: true, cron: `${minute} 4 * * *` } } }, 200),
        ),
      );
      const { sync: stored } = Object((await member.get(path, 200)).body).config;
      await until('the schedule is the newest', async () => {
        const [calendar] = (await schedule.describe()).spec.calendars ?? [];
        return calendar?.minute?.[0]?.start === Number.parseInt(stored.cron, 10);
      });
      await member.delete(path, 204);
      await untilGone(schedule);
      const orphan = { orgId: member.orgId, connectionId: id };
      await createSyncSchedules(api.container.temporal).set(orphan, { isOn: true, everyMinutes: 60 });
      await schedule.trigger();
      // A run that finds no connection leaves its schedule to the sweeper, after a grace period.
      await untilGone(schedule);
    });

    it('makes up for missed runs with one run, and skips runs that would overlap a sync', async () => {
      const fake = api.fakes.acme_drive;
      fake.tree.add('missed/a.txt');
      const daily = { enabled: true, interval_minutes: undefined, cron: '0 4 * * *' };
      const { member, id } = await connectSynced(api, 'acme_drive', 'missed', daily);
      const schedule = scheduleOf(id);
      await untilPaused(schedule, false);
      const tenDays = { start: new Date('2026-01-01T00:00:00Z'), end: new Date('2026-01-10T12:00:00Z') };
      await schedule.backfill({ ...tenDays, overlap: 'SKIP' });
      await until('it was synced', async () => (await syncsOf(member, id))[0]?.status === 'succeeded');
      expect((await schedule.describe()).info).include({ numActionsTaken: 1, numActionsSkippedOverlap: 9 });
      expect(await syncsOf(member, id)).length(1);
      fake.revokeGrants();
      await sync(member, id, 'parked');
      const queued = await queue(member.orgId, id);
      expect(queued).deep.equal({ jobId: null, reason: 'the previous sync is still open.' });
      expect(await syncsOf(member, id)).length(2);
    });
  });
});
