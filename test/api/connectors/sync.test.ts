import type { ScheduleHandle } from '@temporalio/client';
import { expect } from 'chai';
import { syncWorkflowId } from '#src/contracts/workflow-ids.ts';
import { createSyncSchedules } from '#src/temporal/schedules.ts';
import { aFolder, rootOf } from '#test/support/builders.ts';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import {
  connectSynced,
  documentCalled,
  importFiles,
  importStack,
  noChanges,
  untilIngested,
} from '#test/support/import-stack.ts';
import { until } from '#test/support/until.ts';
import { untilJob } from '#test/support/until-job.ts';

describe('a sync', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  /** Connects a user whose sync mirrors a folder of Google Drive with these files. */
  const synced = (folder: string, files: string[], config: object = {}) => {
    for (const file of files) api.fakes.acme_drive.tree.add(`${folder}/${file}`);
    return connectSynced(api, 'acme_drive', folder, config);
  };

  it('is listed with its results, newest first, page by page', async () => {
    const { member, path, run } = await synced('listed', ['a.txt']);
    const list = async (query = '') => Object((await member.get(`${path}/syncs${query}`, 200)).body);
    expect(await list()).deep.equal({ items: [], next_cursor: null });
    const [first, second] = [await run(), await run()];
    expect(first).include({ ...noChanges, added: 1, last_error: null });
    const page = await list('?limit=1');
    expect(page.items).deep.equal([second]);
    expect(await list(`?limit=1&cursor=${page.next_cursor}`)).deep.equal({ items: [first], next_cursor: null });
    await member.get(`${path}/syncs?cursor=x`, 400);
  });

  it('leaves documents that the user edited or renamed as they are, and marks them as detached from their files', async () => {
    const { tree } = api.fakes.acme_drive;
    const { member, id, run, names } = await synced('kept', ['mine.txt', 'named.txt', 'away.txt']);
    await run();
    const [mine, named] = [await documentCalled(member, 'mine.txt'), await documentCalled(member, 'named.txt')];
    expect(mine.import_detached).equal(false);
    const file = { name: 'mine.txt', content: 'My own words.' };
    await member.upload(`/documents/${mine.id}`, file, 200, { method: 'PATCH' });
    await member.patch(`/documents/${named.id}`, { name: 'Called otherwise' }, 200);
    await member.delete(`/documents/${(await documentCalled(member, 'away.txt')).id}`, 204);
    for (const name of ['mine.txt', 'away.txt']) tree.edit(`kept/${name}`, 'Theirs.');
    tree.rename('kept/named.txt', 'again.txt');
    expect(await run()).include({ ...noChanges, unchanged: 3 });
    tree.remove('kept/mine.txt');
    expect(await run()).include({ deleted: 0 });
    await untilIngested(member);
    const { body } = await member.get(`/documents/${mine.id}`, 200);
    expect(body).include({ content: 'My own words.', import_detached: true });
    expect(await names()).deep.equal(['Called otherwise', 'mine.txt']);
    await importFiles(member, { connection_id: id, files: [{ path: 'kept/away.txt' }] });
    expect(await names()).deep.equal(['Called otherwise', 'away.txt', 'mine.txt']);
  });

  it('runs once for concurrent requests', async () => {
    const { member, id, path, runs } = await synced('single', ['a.txt']);
    // The sync cannot end before every request has been answered.
    const hold = api.fakes.acme_drive.holdNext();
    const answers = await Promise.all(Array.from({ length: 4 }, () => member.post(`${path}/sync`, {}, 202)));
    hold.release();
    expect(new Set(answers.map(({ body }) => Object(body).id)).size).equal(1);
    await untilJob(member, syncWorkflowId(id), 'succeeded');
    expect(await runs()).length(1);
  });

  it('takes new settings, rejects wrong ones (422), and cannot start once its settings are removed (409)', async () => {
    const { member, path } = await synced('', []);
    const daily = { enabled: false, cron: '0 3 * * *', folder: 'Reports', delete_missing: true };
    for (const [change, config] of [
      [daily, { sync: daily }],
      [null, {}],
    ]) {
      expect((await member.patch(path, { config: { sync: change } }, 200)).body).deep.include({ config });
    }
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
      const { run, names } = await connectSynced(api, 'acme_dropbox', 'pages');
      await run();
      fake.pageSize(1);
      const gone = tree.remove('pages/x.txt');
      tree.add('pages/z.txt');
      const [first, second] = [fake.holdNext(), fake.holdNext()];
      const running = run();
      await first.arrived;
      first.release();
      await second.arrived;
      tree.restore(gone);
      second.release();
      expect(await running).include({ mode: 'delta', added: 1, deleted: 0 });
      fake.pageSize(1_000);
      expect(await names()).deep.equal(['x.txt', 'y.txt', 'z.txt']);
    });

    it('keeps files of the same name in other folders, also if the name differs in letter case', async () => {
      const { tree } = api.fakes.acme_drive;
      const { run, names } = await synced('alike', ['A/one.txt', 'B/two.txt', 'reports/four.txt']);
      tree.rename('alike/B', 'A');
      await run();
      // The service merges both into one folder, named as in the path of the first file.
      tree.add('alike/Reports/three.txt');
      expect(await run()).include({ mode: 'delta', added: 1 });
      expect(await names()).members(['A/one.txt', 'A/two.txt', 'reports/four.txt', 'reports/three.txt']);
      tree.remove('alike/Reports');
      expect(await run()).include({ mode: 'delta', deleted: 1 });
      expect(await names()).members(['A/one.txt', 'A/two.txt', 'reports/four.txt']);
      tree.remove('alike/A');
      expect(await run()).include({ mode: 'full', deleted: 1 });
      expect(await names()).members(['A/two.txt', 'reports/four.txt']);
      // Only one folder of that name is left, so the delta is unambiguous.
      tree.remove('alike/A');
      expect(await run()).include({ mode: 'delta', deleted: 1 });
      expect(await names()).deep.equal(['reports/four.txt']);
    });

    it('asks the user before it deletes nearly all documents, and keeps those whose files are restored meanwhile', async () => {
      const { tree } = api.fakes.acme_drive;
      // A sync deletes at most 20 documents without asking.
      const files = Array.from({ length: 23 }, (_, n) => `${n}.txt`);
      const { member, id, path, run, runs, names } = await synced('emptied', files);
      await run();
      const remove = (from: number) => files.slice(from).map((file) => tree.remove(`emptied/${file}`));
      const retry = () => member.post(`/jobs/${syncWorkflowId(id)}/retry`, {}, 202);

      const gone = remove(1);
      const parked = await run('parked');
      expect(parked).deep.include({ deleted: 0, status: 'parked' });
      expect(parked.last_error?.code).equal('mass_deletion');
      expect(await names()).length(23);
      await retry();
      await untilJob(member, parked.job_id, 'parked');
      for (const one of gone.slice(1)) tree.restore(one);
      await retry();
      await untilJob(member, parked.job_id, 'succeeded');
      expect((await runs())[0]).include({ status: 'succeeded', unchanged: 22, deleted: 1 });

      const goneAgain = remove(2);
      const parkedAgain = await run('parked');
      for (const one of goneAgain.slice(-1)) tree.restore(one);
      const { body } = await member.post(`${path}/sync`, { accept_deletions: true }, 202);
      expect(Object(body).id).equal(parkedAgain.id);
      await untilJob(member, parkedAgain.job_id, 'succeeded');
      expect((await runs())[0]).include({ status: 'succeeded', deleted: 20 });
      expect(await names()).members(['0.txt', '22.txt']);
    });
  });

  describe('after its settings changed', () => {
    it('moves documents to a new target folder and, if `delete_missing` is now set, deletes those whose file is gone', async () => {
      const { tree } = api.fakes.acme_drive;
      const files = ['a.txt', 'b.txt', 'c.txt'];
      const { member, path, run, names } = await synced('set anew', files, { delete_missing: false });
      await run();
      tree.remove('set anew/a.txt');
      expect(await run()).include({ mode: 'delta', deleted: 0 });
      const wanted = { enabled: false, interval_minutes: 5, folder: 'set anew', delete_missing: true };
      await member.patch(path, { config: { sync: wanted } }, 200);
      expect(await run()).include({ mode: 'full', unchanged: 2, deleted: 1 });
      const target = await aFolder(member, await rootOf(member, 'personal_root'), 'Other place');
      await member.patch(path, { config: { sync: { ...wanted, target_folder_id: target.id } } }, 200);
      expect(await run()).include({ mode: 'full', updated: 2 });
      expect(await names()).deep.equal(['Other place/b.txt', 'Other place/c.txt']);
      expect(await run()).include({ mode: 'delta', updated: 0 });
    });

    it('reports that the target folder is deleted, until the user sets another folder', async () => {
      const { member, path, run } = await synced('nowhere', ['a.txt', 'b.txt']);
      const target = await aFolder(member, await rootOf(member, 'personal_root'));
      const wanted = { enabled: false, interval_minutes: 5, folder: 'nowhere' };
      await member.patch(path, { config: { sync: { ...wanted, target_folder_id: target.id } } }, 200);
      await member.delete(`/folders/${target.id}`, 204);
      const failed = await run();
      expect(failed).include({ status: 'succeeded', failed: 2 });
      expect(failed.last_error?.code).equal('folder_not_found');
      expect(failed.last_error?.message).match(/^2 files failed, all of them with: /);
      expect(Object((await member.get(`/jobs/${failed.job_id}`, 200)).body).last_error).deep.equal(failed.last_error);
      await member.patch(path, { config: { sync: wanted } }, 200);
      expect(await run()).include({ added: 2, failed: 0, last_error: null });
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
      const { member, id, path, runs, names } = await synced('timed', ['a.txt']);
      const schedule = scheduleOf(id);
      await untilPaused(schedule, true);
      const wanted = { enabled: true, cron: '0 4 * * 1-5', folder: 'timed' };
      await member.patch(path, { config: { sync: wanted } }, 200);
      await untilPaused(schedule, false);
      expect((await schedule.describe()).policies.overlap).equal('SKIP');
      await schedule.trigger();
      await until('it was synced', async () => (await runs())[0]?.status === 'succeeded');
      expect(await names()).deep.equal(['a.txt']);
      await schedule.pause('Maintenance.');
      for (const change of [{ cron: '0 5 * * *' }, { enabled: false }, { enabled: true }]) {
        await member.patch(path, { config: { sync: { ...wanted, ...change } } }, 200);
      }
      expect((await schedule.describe()).state).include({ paused: true, note: 'Maintenance.' });
      await member.delete(path, 204);
      await untilGone(schedule);
      expect(await names()).deep.equal(['a.txt']);
    });

    it('uses the newest of concurrently set schedules; when the connection is deleted, the schedule is removed', async () => {
      const { member, id, path } = await synced('', []);
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
      const daily = { enabled: true, interval_minutes: undefined, cron: '0 4 * * *' };
      const { member, id, run, runs } = await synced('missed', ['a.txt'], daily);
      const schedule = scheduleOf(id);
      await untilPaused(schedule, false);
      const tenDays = { start: new Date('2026-01-01T00:00:00Z'), end: new Date('2026-01-10T12:00:00Z') };
      await schedule.backfill({ ...tenDays, overlap: 'SKIP' });
      await until('it was synced', async () => (await runs())[0]?.status === 'succeeded');
      expect((await schedule.describe()).info).include({ numActionsTaken: 1, numActionsSkippedOverlap: 9 });
      expect(await runs()).length(1);
      api.fakes.acme_drive.revokeGrants();
      await run('parked');
      const queued = await queue(member.orgId, id);
      expect(queued).deep.equal({ jobId: null, reason: 'the previous sync is still open.' });
      expect(await runs()).length(2);
    });
  });
});
