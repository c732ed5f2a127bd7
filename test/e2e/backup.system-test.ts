import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { migrateDatabase } from '#src/adapters/postgres/database.ts';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import { ADMIN, runAdmin } from '#test/support/admin-command.ts';
import {
  type BackupCase,
  backupsOf,
  createBackupCase,
  type EmptyPlace,
  itBacksUpAndRestores,
  loansText,
  onRestored,
} from '#test/support/backup-story.ts';
import { newCollectionPrefix } from '#test/support/qdrant.ts';
import { createBucket, openBucket, s3Endpoint } from '#test/support/s3.ts';
import { findSecrets } from '#test/support/secret-search.ts';
import { testQdrantUrl } from '#test/support/services.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';
import { backupCommand, restoreCommand } from '../../scripts/admin/backup.ts';
import { errorReason } from '../../scripts/admin/output.ts';
import { serviceEnvironment } from '../../scripts/launchers/service-environment.ts';

describe('backup and restore', function () {
  this.timeout(120_000);

  describe('with originals in files, and vectors in Postgres', () => {
    itBacksUpAndRestores(async () => ({}));
  });

  describe('with vectors in Qdrant, which are not in the backup', () => {
    itBacksUpAndRestores(async () => ({
      VECTOR_STORE: 'qdrant',
      QDRANT_URL: testQdrantUrl(),
      QDRANT_COLLECTION_PREFIX: newCollectionPrefix(),
    }));
  });

  describe('with originals in S3', () => {
    before(async function () {
      await openBucket(this);
    });
    itBacksUpAndRestores(async () => (await createBucket(s3Endpoint() ?? '')).environment);
  });
});

describe('backup and restore that are refused, damaged or killed', function () {
  this.timeout(120_000);
  let own: BackupCase;
  before(async () => {
    own = await createBackupCase();
    await own.backUp('--into', own.folder);
  });
  after(() => own?.close());

  const upload = async (name: string, content: string): Promise<{ id: string; embedding_job_id: string }> =>
    Object((await own.ada.upload('/documents', { name, content }, 201)).body);

  it('refuses wrong arguments, missing backups, a used database and one with a worker, in one line', async () => {
    for (const args of [[], ['--into', 'x', '--keep', '0'], ['x', '--into', 'y'], ['--into', 'x', '--verify', 'y']]) {
      expect(backupCommand.read(args)).has.property('wrong');
    }
    for (const args of [[], ['--from', 'x', 'y']]) expect(restoreCommand.read(args)).has.property('wrong');
    const nothing = await runAdmin(own.source.settings, ['backup', '--verify', tmpdir()]);
    expect(nothing).deep.include({ code: 1, stderr: `There is no complete backup in ${tmpdir()}.\n` });
    const used = await own.restore({ settings: own.source.settings as Record<string, string> });
    expect(used.code).equal(1);
    expect(used.stderr).match(
      /^The database is not empty: it has \d+ tables\. docs\/backup\.md says how to empty it\.\n$/,
    );
    const worker = createContainer(loadConfig((await own.newPlace()).settings), 'worker');
    await worker.db.raw('select 1');
    const refusal = await worker.restores.restore(own.folder, () => undefined).then(() => '', errorReason);
    expect(refusal).equal('The database is in use (worker): stop these processes first.');
    await worker.close();
  });

  it('refuses a second restore and a backup during a restore', async () => {
    const { settings } = await own.newPlace();
    const start = () => createContainer(loadConfig(settings), 'admin');
    const [first, second] = [start(), start()];
    const refusals: Promise<string>[] = [];
    const refused = (work: Promise<unknown>) => refusals.push(work.then(() => '', errorReason));
    try {
      await first.restores.restore(own.folder, (line) => {
        if (!['Originals …', 'The database …'].includes(line)) return;
        refused(second.restores.restore(own.folder, () => undefined));
        refused(second.backups.backUp({ folder: own.folder, keep: null, note: () => undefined }));
      });
      const reason = 'Another command is backing up or restoring this database.';
      expect(await Promise.all(refusals)).deep.equal([reason, reason, reason, reason]);
    } finally {
      await Promise.all([first.close(), second.close()]);
    }
  });

  it('refuses a damaged backup and names the damaged files', async () => {
    const place = await own.newPlace();
    const { copy, path } = await own.copyOfFolder();
    const [organization = ''] = await readdir(join(copy, 'originals'));
    const [first = '', second = ''] = await readdir(join(copy, 'originals', organization));
    const damaged = join(copy, 'originals', organization, first);
    const content = await readFile(damaged);
    content[0] = (content[0] ?? 0) ^ 1;
    await writeFile(damaged, content);
    const missing = join(copy, 'originals', organization, second);
    await rm(missing);
    const dump = join(path, 'database.dump');
    await truncate(dump, 1_000);

    const checked = await runAdmin(own.source.settings, ['backup', '--verify', copy]);
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
    expect((await runAdmin(own.source.settings, ['backup', '--verify', copy])).code).equal(0);
  });

  it('refuses an incomplete backup, one of a newer version or format, and a folder of another installation', async () => {
    const place = await own.newPlace();
    const { copy, path } = await own.copyOfFolder();
    const manifest = join(path, 'manifest.json');
    const written = JSON.parse(await readFile(manifest, 'utf8'));
    const { restores, close } = createContainer(loadConfig(place.settings), 'admin');
    const refusal = () => restores.restore(copy, () => undefined).then(() => '', errorReason);
    const wrong: [changes: object, reason: RegExp][] = [
      [
        { migration: '20990101000000_later.ts' },
        /^The backup is from a newer version .* has no migration 2099\d+_later/,
      ],
      [{ postgresMajor: 99 }, /^The backup was made on Postgres 99; this server is Postgres 18/],
      [{ format: 2 }, /manifest\.json is not a valid backup manifest: format is of another version/],
    ];
    for (const [changes, reason] of wrong) {
      await writeFile(manifest, JSON.stringify({ ...written, ...changes }));
      expect(await refusal()).match(reason);
    }
    await rm(manifest);
    expect(await refusal()).match(/^There is no complete backup in /);
    await close();

    const before = await backupsOf(copy);
    await writeFile(join(copy, 'installation'), '2020-01-01T00:00:00.000Z');
    const refused = await runAdmin(own.source.settings, ['backup', '--into', copy, '--keep', '1']);
    expect(refused.stderr).match(/ has the backups of another installation .*: choose another folder\.\n$/);
    expect(await backupsOf(copy)).deep.equal(before);
  });

  it('contains the original of every row while documents are uploaded and deleted', async () => {
    const { copy } = await own.copyOfFolder();
    const place = await own.newPlace();
    let isOver = false;
    const work = [0, 1, 2].map(async (worker) => {
      for (let turn = 0; !isOver; turn += 1) {
        const { id, embedding_job_id } = await upload(`${worker}-${turn}.txt`, `Text ${worker} of ${turn}.`);
        if (turn % 3 === 0) await own.ada.delete(`/documents/${id}`, 204);
        else if (turn % 3 === 1) {
          await untilRun(own.ada, embedding_job_id, 'succeeded');
          const next = { name: 'next.txt', content: `Another text ${worker} of ${turn}.` };
          await own.ada.upload(`/documents/${id}`, next, 200, { method: 'PATCH' });
        }
      }
    });
    try {
      for (let turn = 0; turn < 3; turn += 1) await own.backUp('--into', copy, '--keep', '2');
    } finally {
      isOver = true;
      await Promise.all(work);
    }
    expect(await backupsOf(copy)).lengthOf(2);
    expect(await own.restore(place, copy)).include({ code: 0 });
    await onRestored(place, own.ada, async (again) => {
      const { items } = (await again.get('/documents?limit=100', 200)).body as { items: { id: string }[] };
      expect(items.length).greaterThan(5);
      for (const { id } of items) expect((await again.raw(`/documents/${id}/file`)).status).equal(200);
    });
  });

  it('backs up everything else if the store has lost or damaged originals, and reports those', async () => {
    const copy = `${own.folder}-${randomUUID()}`;
    const objects = join(own.source.config.dataDir, 'blobs', 'objects', own.ada.orgId);
    const [first = '', second = ''] = await readdir(objects);
    const [damaged, lost] = [join(objects, first), join(objects, second)];
    const contents = [await readFile(damaged), await readFile(lost)] as const;
    await writeFile(damaged, 'something else');
    await rm(lost);
    const told = await runAdmin(own.source.settings, ['backup', '--into', copy]);
    await writeFile(damaged, contents[0]);
    await writeFile(lost, contents[1]);
    expect(told.code).equal(1);
    for (const name of [first, second])
      expect(told.stderr).include(`The store has lost ${own.ada.orgId}/${name}, or has`);
    expect(told.stderr).match(/\n2 originals are missing or damaged in the store\. Everything else is backed up\.\n$/);
    expect((await runAdmin(own.source.settings, ['backup', '--verify', copy])).code).equal(0);
  });

  it('contains no secret in plain text and only hashes of passwords, in files that only their owner can read', async () => {
    const path = join(own.folder, (await backupsOf(own.folder)).at(-1) ?? '');
    const program = join(own.source.settings.TOOLS_DIR ?? '', 'embedded_postgres', 'pginstall', 'bin', 'pg_restore');
    const dump = join(path, 'database.dump');
    const { stdout } = await promisify(execFile)(program, ['--file=-', dump], { maxBuffer: 1_000_000_000 });
    expect(stdout)
      .include('$argon2id$')
      .include(loansText.split('\n')[0] ?? '');
    const { ENCRYPTION_KEYS = '', URL_SIGNING_KEY = '', JWT_PRIVATE_KEY = '', DATABASE_URL = '' } = own.source.settings;
    const { password, refreshToken } = own.ada;
    const values = [password, refreshToken, ENCRYPTION_KEYS.slice(2), URL_SIGNING_KEY, '"secretAccessKey":"secret"'];
    const ofProcess = [JWT_PRIVATE_KEY.split('\n')[3] ?? '', decodeURIComponent(new URL(DATABASE_URL).password)];
    const secrets = [...values, ...ofProcess].map((value, index) => ({ name: `secret ${index}`, value }));
    const manifest = { name: 'manifest', text: await readFile(join(path, 'manifest.json'), 'utf8') };
    expect(findSecrets(secrets, [{ name: 'dump', text: stdout }, manifest])).deep.equal([]);
    const readable = await promisify(execFile)('find', [own.folder, '-perm', '/077']);
    expect(readable.stdout).equal('');
    expect(existsSync(join(own.folder, 'incoming'))).equal(false);
  });

  it('reports credentials that the configured keys cannot decrypt', async () => {
    const { settings } = await own.newPlace();
    const others = { ...settings, ENCRYPTION_KEYS: `1:${Buffer.alloc(32).toString('base64')}` };
    const { code, stdout } = await own.restore({ settings: others });
    expect(stdout).match(
      /\n1 connections have credentials that no key in ENCRYPTION_KEYS decrypts: set the keys that were used at the time of the backup\.\n/,
    );
    expect(code).equal(1);
  });

  /** Kills the command once it has printed a line. */
  async function killAt(said: string, settings: Readonly<Record<string, string>>, args: string[]): Promise<void> {
    const env = serviceEnvironment({ ...settings }, ['NODE_COMPILE_CACHE']);
    const child = spawn(process.execPath, [ADMIN, ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    let notes = '';
    const isSaid = new Promise<void>((resolve) => {
      child.stderr.on('data', (part) => {
        notes += part;
        if (notes.includes(said)) resolve();
      });
    });
    const closed = once(child, 'close');
    try {
      await Promise.race([isSaid, closed]);
    } finally {
      child.kill('SIGKILL');
      await closed;
    }
    expect(child.signalCode, notes).equal('SIGKILL');
  }

  /** Stops a restore by an exception just before it writes vectors, because a kill at that point could come too late. */
  async function restoreUpToVectors({ settings }: EmptyPlace, from: string): Promise<void> {
    const { restores, close } = createContainer(loadConfig(settings), 'admin');
    const end = new Error('It ends here.');
    const note = (line: string) => {
      if (line === 'Vectors …') throw end;
    };
    try {
      expect(await restores.restore(from, note).catch((error: unknown) => error)).equal(end);
    } finally {
      await close();
    }
  }

  it('ignores an interrupted backup, and reuses its originals for the next one', async () => {
    const { copy } = await own.copyOfFolder();
    const before = await backupsOf(copy);
    for (const said of ['Originals …', 'The database …']) {
      await killAt(said, own.source.settings, ['backup', '--into', copy]);
      await untilNoCommand(own.source);
      expect(await backupsOf(copy)).deep.equal(before);
    }
    expect((await readdir(copy)).some((name) => name.startsWith('unfinished-'))).equal(true);
    await own.backUp('--into', copy);
    expect((await readdir(copy)).sort()).deep.equal([...(await backupsOf(copy)), 'installation', 'originals']);
    expect((await runAdmin(own.source.settings, ['backup', '--verify', copy])).code).equal(0);
  });

  it('continues an interrupted restore', async () => {
    const place = await own.newPlace();
    for (const said of ['Originals …', 'The database …']) {
      await killAt(said, place.settings, ['restore', '--from', own.folder]);
      await untilNoCommand(place);
    }
    await restoreUpToVectors(place, own.folder);
    const begun = await migrateDatabase(place.settings.DATABASE_URL ?? '').then(() => '', errorReason);
    expect(begun).match(/^A restore of this database was not completed: /);
    const backedUp = await runAdmin(place.settings, ['backup', '--into', own.folder, '--keep', '1']);
    expect(backedUp.stderr).match(/^A restore of this database is unfinished: /m);
    expect(await own.restore(place)).include({ code: 0 });
    await onRestored(place, own.ada);
    expect((await own.restore(place)).stderr).match(/^The database is not empty/);
  });

  /** Waits until the killed command and its child processes have disconnected from the database. */
  async function untilNoCommand({ settings }: { settings: NodeJS.ProcessEnv }): Promise<void> {
    const { db, close } = createContainer(loadConfig(settings), 'test');
    const database = new URL(settings.DATABASE_URL ?? '').pathname.slice(1);
    // A child that was just started may not have connected yet.
    const hasProgram = () => promisify(execFile)('pgrep', ['-f', `dbname=.*/${database}`]).then(Boolean, () => false);
    const hasSession = async () => {
      const sessions = db('pg_stat_activity').whereRaw('datname = current_database()');
      return (await sessions.whereIn('applicationName', ['admin', 'pg_dump', 'pg_restore']).first('pid')) !== undefined;
    };
    try {
      await until('the killed command has disconnected', async () => !(await hasProgram()) && !(await hasSession()));
    } finally {
      await close();
    }
  }
});
