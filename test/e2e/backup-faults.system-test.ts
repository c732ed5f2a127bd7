import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { createDatabaseDumps } from '#src/adapters/postgres/backup.ts';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import { runAdmin } from '#test/support/admin-command.ts';
import { type BackedUp, backUpInstallation, backupsOf, newestOf } from '#test/support/backed-up.ts';
import { expectSound, loansText, signInAgain } from '#test/support/backup-story.ts';
import { findSecrets } from '#test/support/secret-search.ts';
import { startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';
import { backupCommand, restoreCommand } from '../../scripts/admin/backup.ts';
import { errorReason } from '../../scripts/admin/output.ts';

describe('backup and restore under faults', function () {
  this.timeout(120_000);
  let own: BackedUp;
  before(async () => {
    own = await backUpInstallation();
  });
  after(() => own?.close());

  const upload = async (name: string, content: string): Promise<{ id: string; embedding_job_id: string }> =>
    Object((await own.ada.upload('/documents', { name, content }, 201)).body);

  it('refuses wrong arguments and missing backups with a one-line message', async () => {
    for (const args of [[], ['--into', 'x', '--keep', '0'], ['x', '--into', 'y'], ['--into', 'x', '--verify', 'y']]) {
      expect(backupCommand.read(args)).has.property('wrong');
    }
    for (const args of [[], ['--from', 'x', 'y']]) expect(restoreCommand.read(args)).has.property('wrong');
    const nothing = await runAdmin(own.source.settings, ['backup', '--verify', tmpdir()]);
    expect(nothing).deep.include({ code: 1, stderr: `There is no complete backup in ${tmpdir()}.\n` });
  });

  it('restores only into an empty database', async () => {
    const used = await own.restore({ settings: own.source.settings as Record<string, string> });
    expect(used.code).equal(1);
    expect(used.stderr).match(
      /^The database is not empty: it has \d+ tables\. docs\/backup\.md says how to empty it\.\n$/,
    );
  });

  it('refuses to restore while a worker is connected to the database', async () => {
    const place = await own.newPlace();
    const worker = createContainer(loadConfig(place.settings), 'worker');
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
    await rm(copy, { recursive: true });
  });

  it('refuses an incomplete backup and one of a newer version or format', async () => {
    const place = await own.newPlace();
    const { copy, path } = await own.copyOfFolder();
    const manifest = join(path, 'manifest.json');
    const written = JSON.parse(await readFile(manifest, 'utf8'));
    const { restores, close } = createContainer(loadConfig(place.settings), 'admin');
    const refusal = () => restores.restore(copy, () => undefined).then(() => '', errorReason);
    const refusalOf = async (changes: object) => {
      await writeFile(manifest, JSON.stringify({ ...written, ...changes }));
      return refusal();
    };
    expect(await refusalOf({ migration: '20990101000000_later.ts' })).match(
      /^The backup is from a newer version of the service: this version has no migration 20990101000000_later\.ts\.$/,
    );
    expect(await refusalOf({ postgresMajor: 99 })).match(
      /^The backup was made on Postgres 99; this server is Postgres 18/,
    );
    expect(await refusalOf({ format: 2 })).match(
      /manifest\.json is not a valid backup manifest: format is of another version/,
    );
    await rm(manifest);
    expect(await refusal()).match(/^There is no complete backup in /);
    await close();
    await rm(copy, { recursive: true });
  });

  it("refuses a folder with another installation's backups and keeps them", async () => {
    const { copy } = await own.copyOfFolder();
    const before = await backupsOf(copy);
    await writeFile(join(copy, 'installation'), '2020-01-01T00:00:00.000Z');
    const refused = await runAdmin(own.source.settings, ['backup', '--into', copy, '--keep', '1']);
    expect(refused.code).equal(1);
    expect(refused.stderr).match(/ has the backups of another installation .*: choose another folder\.\n$/);
    expect(await backupsOf(copy)).deep.equal(before);
    await rm(copy, { recursive: true });
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
    const target = await startStack(place.settings, { workers: 'all' });
    try {
      await expectSound(target);
      const again = await signInAgain(target, own.ada);
      const { items } = (await again.get('/documents?limit=100', 200)).body as { items: { id: string }[] };
      expect(items.length).greaterThan(5);
      for (const { id } of items) expect((await again.raw(`/documents/${id}/file`)).status).equal(200);
    } finally {
      await target.close();
    }
    await rm(copy, { recursive: true });
  });

  it('keeps the requested number of backups, and only their originals', async () => {
    const { copy } = await own.copyOfFolder();
    const gone = await upload('gone.txt', 'A text that is deleted between two backups.');
    await untilRun(own.ada, gone.embedding_job_id, 'succeeded');
    await own.backUp('--into', copy);
    const count = async () => (await readdir(join(copy, 'originals', own.ada.orgId))).length;
    const withIt = await count();
    await own.ada.delete(`/documents/${gone.id}`, 204);
    await until('its original is gone', async () => {
      return (await own.source.container.db('documents').where({ id: gone.id }).first('id')) === undefined;
    });
    await own.backUp('--into', copy);
    expect(await count()).equal(withIt);
    await own.backUp('--into', copy, '--keep', '1');
    expect(await backupsOf(copy)).lengthOf(1);
    expect(await count()).equal(withIt - 1);
    await rm(copy, { recursive: true });
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
    await rm(copy, { recursive: true });
  });

  it('reports that no pg_dump supports the version of the server', async () => {
    const dumps = createDatabaseDumps({ databaseUrl: own.source.settings.DATABASE_URL ?? '', programsDir: '/nowhere' });
    const written = { path: join(own.folder, 'never'), snapshot: 'none', withoutRowsOf: [], without: [] };
    const refusal = await dumps.write({ ...written, serverMajor: 99 }).then(() => '', errorReason);
    expect(refusal).match(
      /^No pg_dump of version 99 or newer was found.*: install the client programs of Postgres 99\.$/,
    );
  });

  it('contains no secret in plain text, and only hashes of passwords', async () => {
    const path = join(own.folder, await newestOf(own.folder));
    const program = join(own.source.settings.TOOLS_DIR ?? '', 'embedded_postgres', 'pginstall', 'bin', 'pg_restore');
    const dump = join(path, 'database.dump');
    const { stdout } = await promisify(execFile)(program, ['--file=-', dump], { maxBuffer: 1_000_000_000 });
    expect(stdout)
      .include('$argon2id$')
      .include(loansText.split('\n')[0] ?? '');
    const { ENCRYPTION_KEYS = '', URL_SIGNING_KEY = '', JWT_PRIVATE_KEY = '', DATABASE_URL = '' } = own.source.settings;
    const secrets = [
      { name: 'password', value: own.ada.password },
      { name: 'refresh token', value: own.ada.refreshToken },
      { name: 'encryption key', value: ENCRYPTION_KEYS.slice(2) },
      { name: 'key of addresses', value: URL_SIGNING_KEY },
      { name: 'signing key', value: JWT_PRIVATE_KEY.split('\n')[3] ?? '' },
      { name: 'password of Postgres', value: decodeURIComponent(new URL(DATABASE_URL).password) },
      { name: 'key of a connection', value: '"secretAccessKey":"secret"' },
    ];
    const manifest = await readFile(join(path, 'manifest.json'), 'utf8');
    expect(
      findSecrets(secrets, [
        { name: 'dump', text: stdout },
        { name: 'manifest', text: manifest },
      ]),
    ).deep.equal([]);
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

  it('writes files that only their owner can read', async () => {
    const { stdout } = await promisify(execFile)('find', [own.folder, '-perm', '/077']);
    expect(stdout).equal('');
    expect(existsSync(join(own.folder, 'incoming'))).equal(false);
  });
});
