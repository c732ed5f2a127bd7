import { expect } from 'chai';
import { createSyncsService } from '#src/modules/imports/syncs.service.ts';
import { aFolder, rootOf } from '#test/support/builders.ts';
import type { ConnectorStack } from '#test/support/connector-stack.ts';
import { connectSynced, importStack, shelf, sync } from '#test/support/import-stack.ts';

describe('a sync after its settings changed', () => {
  let api: ConnectorStack;
  before(async () => {
    api = await importStack();
  });

  it('moves documents into the new target folder, and deletes missing files once it may', async () => {
    const { tree } = api.fakes.acme_drive;
    for (const name of ['a.txt', 'b.txt', 'c.txt']) tree.add(`set anew/${name}`);
    const { member, id, path } = await connectSynced(api, 'acme_drive', 'set anew', { delete_missing: false });
    await sync(member, id);
    tree.remove('set anew/a.txt');
    expect(await sync(member, id)).include({ mode: 'delta', deleted: 0 });
    const change = (config: object) => member.patch(path, { config: { sync: config } }, 200);
    const wanted = { enabled: false, interval_minutes: 5, folder: 'set anew', delete_missing: true };
    await change(wanted);
    expect(await sync(member, id)).include({ mode: 'full', unchanged: 2, deleted: 1 });

    const target = Object(
      (await member.post('/folders', { name: 'Other place', parent_id: await rootOf(member, 'personal_root') }, 201))
        .body,
    );
    await change({ ...wanted, target_folder_id: target.id });
    expect(await sync(member, id)).include({ mode: 'full', updated: 2 });
    expect(await shelf(member)).deep.equal(['Other place/b.txt', 'Other place/c.txt']);
    expect(await sync(member, id)).include({ mode: 'delta', updated: 0 });
  });

  it('reports a deleted target folder as the reason until another one is set', async () => {
    const { tree } = api.fakes.acme_drive;
    for (const name of ['a.txt', 'b.txt']) tree.add(`nowhere/${name}`);
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

  it('keeps the schedule of the newest settings when an older update ends later', async () => {
    const { id, member } = await connectSynced(api, 'acme_drive', 'raced');
    const of = { orgId: member.orgId, connectionId: id };
    const { db, jobs, folders, orchestrator, findActor, logger } = api.container;
    const wanted: string[] = [];
    const [asked, slow] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const schedules = {
      set: async (_: unknown, times: object) => {
        asked.resolve();
        await slow.promise;
        wanted.push(Object(times).cron);
      },
      remove: async () => undefined,
    };
    const syncs = createSyncsService({ db, schedules, folders, jobs, orchestrator, findActor, logger });
    const change = (cron: string) =>
      db('connections')
        .where({ id })
        .update({ config: JSON.stringify({ sync: { enabled: true, cron } }) });
    await change('1 4 * * *');
    const older = syncs.applyChange(of);
    await asked.promise;
    await change('2 4 * * *');
    await syncs.applyChange(of);
    slow.resolve();
    await older;
    expect(wanted.at(-1)).equal('2 4 * * *');
    expect(await db('connectionSchedules').where({ connectionId: id }).first()).include({ outdatedAt: null });
  });
});
