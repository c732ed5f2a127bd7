import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { migrateDatabase } from '#src/adapters/postgres/database.ts';
import { ADMIN, runAdmin } from '#test/support/admin-command.ts';
import { until } from '#test/support/until.ts';
import { backupCommand, restoreCommand } from '../../scripts/admin/backup.ts';
import { serviceEnvironment } from '../../scripts/launchers/service-environment.ts';
import {
  type BackupCase,
  backupsOf,
  containerOf,
  createBackupCase,
  onRestored,
  reasonOf,
  type Settings,
} from './backup-case.ts';

const silent = () => undefined;

describe('backup and restore, when something is wrong,', function () {
  this.timeout(120_000);
  let own: BackupCase;
  let settingsOfSource: Settings;
  before(async () => {
    own = await createBackupCase();
    settingsOfSource = { ...own.source.settings };
    await own.backUp('--into', own.folder);
  });
  after(() => own?.close());

  it('refuse wrong arguments, missing backups, and a database with data or with a worker, in one line', async () => {
    for (const args of [[], ['--into', 'x', '--keep', '0'], ['x', '--into', 'y'], ['--into', 'x', '--verify', 'y']]) {
      expect(backupCommand.read(args)).has.property('wrong');
    }
    for (const args of [[], ['--from', 'x', 'y']]) expect(restoreCommand.read(args)).has.property('wrong');
    const nothing = await own.tryToBackUp('--verify', tmpdir());
    expect(nothing).deep.include({ code: 1, stderr: `There is no complete backup in ${tmpdir()}.\n` });
    const used = await own.restore(settingsOfSource);
    expect(used.code).equal(1);
    expect(used.stderr).match(
      /^The database is not empty: it has \d+ tables\. docs\/backup\.md says how to empty it\.\n$/,
    );
    const worker = containerOf(await own.newPlace(), 'worker');
    await worker.db.raw('select 1');
    const refusal = await reasonOf(worker.restores.restore(own.folder, silent));
    expect(refusal).equal('The database is in use (worker): stop these processes first.');
    await worker.close();
  });

  it('refuse to begin a second restore, or a backup, during a restore', async () => {
    const place = await own.newPlace();
    const [first, second] = [containerOf(place), containerOf(place)];
    const refusals: Promise<string>[] = [];
    try {
      await first.restores.restore(own.folder, (line) => {
        if (!['Originals …', 'The database …'].includes(line)) return;
        refusals.push(reasonOf(second.restores.restore(own.folder, silent)));
        refusals.push(reasonOf(second.backups.backUp({ folder: own.folder, keep: null, note: silent })));
      });
      const reason = 'Another command is backing up or restoring this database.';
      expect(await Promise.all(refusals)).deep.equal([reason, reason, reason, reason]);
    } finally {
      await Promise.all([first.close(), second.close()]);
    }
  });

  it('refuse a damaged backup and name the damaged files', async () => {
    const place = await own.newPlace();
    const { copy, path } = await own.copyOfFolder();
    const [organization = ''] = await readdir(join(copy, 'originals'));
    const originals = join(copy, 'originals', organization);
    const [damaged = '', missing = ''] = (await readdir(originals)).map((name) => join(originals, name));
    const content = await readFile(damaged);
    content[0] = (content[0] ?? 0) ^ 1;
    await writeFile(damaged, content);
    await rm(missing);
    const dump = join(path, 'database.dump');
    await truncate(dump, 1_000);

    const checked = await own.tryToBackUp('--verify', copy);
    expect(checked.code).equal(1);
    expect(checked.stdout)
      .include(`${damaged} is damaged (${content.length} of ${content.length} bytes).`)
      .include(`${missing} is missing.`)
      .include(`${dump} is damaged (1000 of `)
      .include('2 of 4 originals of');
    const refused = await own.restore(place, copy);
    expect(refused.code).equal(1);
    expect(refused.stderr).match(/\nThe backup is damaged: nothing was restored\. [^\n]+\n$/);

    // The next backup copies a deleted original again.
    await rm(damaged);
    await own.backUp('--into', copy);
    expect((await own.tryToBackUp('--verify', copy)).code).equal(0);
  });

  it('refuse an incomplete backup, a newer version or format, and a backup folder of another installation', async () => {
    const { copy, path } = await own.copyOfFolder();
    const manifest = join(path, 'manifest.json');
    const written = JSON.parse(await readFile(manifest, 'utf8'));
    const { restores, close } = containerOf(await own.newPlace());
    const wrong: [changes: object, reason: RegExp][] = [
      [{ migration: '20990101000000_new.ts' }, /^The backup is from a newer version .* has no migration 2099\d+_new/],
      [{ postgresMajor: 99 }, /^The backup was made on Postgres 99; this server is Postgres 18/],
      [{ format: 2 }, /manifest\.json is not a valid backup manifest: format is of another version/],
    ];
    for (const [changes, reason] of wrong) {
      await writeFile(manifest, JSON.stringify({ ...written, ...changes }));
      expect(await reasonOf(restores.restore(copy, silent))).match(reason);
    }
    await rm(manifest);
    expect(await reasonOf(restores.restore(copy, silent))).match(/^There is no complete backup in /);
    await close();

    const before = await backupsOf(copy);
    await writeFile(join(copy, 'installation'), '2020-01-01T00:00:00.000Z');
    const refused = await own.tryToBackUp('--into', copy, '--keep', '1');
    expect(refused.stderr).match(/ has the backups of another installation .*: choose another folder\.\n$/);
    expect(await backupsOf(copy)).deep.equal(before);
  });

  /** Kills the command once it has printed a line, and waits until its child processes have left the database. */
  async function killAt(said: string, settings: Settings, args: string[]): Promise<void> {
    const env = serviceEnvironment(settings, ['NODE_COMPILE_CACHE']);
    const child = spawn(process.execPath, [ADMIN, ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    let notes = '';
    child.stderr.on('data', (part) => {
      notes += part;
      if (notes.includes(said)) child.kill('SIGKILL');
    });
    await once(child, 'close');
    expect(child.signalCode, notes).equal('SIGKILL');

    const { db, close } = containerOf(settings, 'test');
    const database = new URL(settings.DATABASE_URL ?? '').pathname.slice(1);
    // A child that was just started may not have connected yet.
    const hasProgram = () => promisify(execFile)('pgrep', ['-f', `dbname=.*/${database}`]).then(Boolean, () => false);
    const sessions = db('pg_stat_activity')
      .whereRaw('datname = current_database()')
      .whereIn('applicationName', ['admin', 'pg_dump', 'pg_restore']);
    const isGone = async () => !(await hasProgram()) && (await sessions.clone().first('pid')) === undefined;
    await until('the killed command has disconnected', isGone).finally(close);
  }

  it('ignore an interrupted backup, and reuse its originals for the next backup', async () => {
    const { copy } = await own.copyOfFolder();
    const before = await backupsOf(copy);
    for (const said of ['Originals …', 'The database …']) {
      await killAt(said, settingsOfSource, ['backup', '--into', copy]);
      expect(await backupsOf(copy)).deep.equal(before);
    }
    expect((await readdir(copy)).some((name) => name.startsWith('unfinished-'))).equal(true);
    await own.backUp('--into', copy);
    expect((await readdir(copy)).sort()).deep.equal([...(await backupsOf(copy)), 'installation', 'originals']);
    expect((await own.tryToBackUp('--verify', copy)).code).equal(0);
  });

  it('continue an interrupted restore', async () => {
    const place = await own.newPlace();
    for (const said of ['Originals …', 'The database …']) {
      await killAt(said, place, ['restore', '--from', own.folder]);
    }
    // A kill just before it writes vectors could come too late: an exception ends it there.
    const { restores, close } = containerOf(place);
    const endAtVectors = (line: string) => {
      if (line === 'Vectors …') throw new Error('It ends here.');
    };
    expect(await reasonOf(restores.restore(own.folder, endAtVectors)).finally(close)).equal('It ends here.');
    const begun = await reasonOf(migrateDatabase(place.DATABASE_URL ?? ''));
    expect(begun).match(/^A restore of this database was not completed: /);
    const backedUp = await runAdmin(place, ['backup', '--into', own.folder, '--keep', '1']);
    expect(backedUp.stderr).match(/^A restore of this database is unfinished: /m);
    expect(await own.restore(place)).include({ code: 0 });
    await onRestored(place, own.ada);
    expect((await own.restore(place)).stderr).match(/^The database is not empty/);
  });
});
