import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { createDatabaseDumps } from '#src/adapters/postgres/database-dumps.ts';
import { migrate } from '#src/adapters/postgres/migrate.ts';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import { ADMIN, runAdmin } from '#test/support/admin-command.ts';
import {
  createEmptyPlace,
  type EmptyPlace,
  expectSound,
  fillInstallation,
  loansText,
  signInAgain,
} from '#test/support/backup-story.ts';
import type { Member } from '#test/support/client.ts';
import { dropCollections, newCollectionPrefix } from '#test/support/qdrant.ts';
import { findSecrets } from '#test/support/secret-search.ts';
import { testQdrantUrl } from '#test/support/services.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { untilRun } from '#test/support/until-job.ts';
import { backup } from '../../scripts/admin/backup.ts';
import { reasonOf } from '../../scripts/admin/reason-of.ts';
import { restore as restoreCommand } from '../../scripts/admin/restore.ts';
import { serviceEnvironment } from '../../scripts/launchers/service-environment.ts';

describe('backup and restore, when something is wrong', function () {
  this.timeout(120_000);
  let source: Stack;
  let ada: Member;
  let folder: string;
  const places: EmptyPlace[] = [];

  before(async () => {
    source = await startStack();
    ({ ada } = await fillInstallation(source));
    folder = join(tmpdir(), `backups-${randomUUID()}`);
    await backUp('--into', folder);
  });
  after(async () => {
    await source.close();
    for (const place of places) await place.close();
    await rm(folder, { recursive: true, force: true });
  });

  async function backUp(...args: string[]): Promise<void> {
    const { code, stderr } = await runAdmin(source.settings, ['backup', ...args]);
    expect(code, stderr).equal(0);
  }
  async function newPlace(): Promise<EmptyPlace> {
    const place = await createEmptyPlace(source);
    places.push(place);
    return place;
  }
  /** Of the folder, for a test that harms it. */
  async function copyOfFolder(): Promise<{ copy: string; path: string }> {
    const copy = `${folder}-${randomUUID()}`;
    await cp(folder, copy, { recursive: true });
    return { copy, path: join(copy, await newestOf(copy)) };
  }
  const backupsOf = async (of: string) => (await readdir(of)).filter((name) => /^\d{4}-/.test(name)).sort();
  const newestOf = async (of: string) => (await backupsOf(of)).at(-1) ?? '';
  const restore = ({ settings }: Pick<EmptyPlace, 'settings'>, from = folder) =>
    runAdmin(settings, ['restore', '--from', from]);
  const upload = async (name: string, content: string): Promise<{ id: string; embedding_job_id: string }> =>
    Object((await ada.upload('/documents', { name, content }, 201)).body);

  /** Kills the command as soon as it says this and, where there is a condition, as soon as that holds, too. */
  async function killAt(
    said: string,
    settings: Record<string, string>,
    args: string[],
    isTime = async () => true,
  ): Promise<void> {
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
      await Promise.race([isSaid.then(() => until(`it is amid "${said}"`, isTime, 60_000)), closed]);
    } finally {
      child.kill('SIGKILL');
      await closed;
    }
    expect(child.signalCode, notes).equal('SIGKILL');
  }

  /** Leaves what a command leaves that ends just before it makes vectors: a kill there could come too late. */
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

  it('tells in one line what it does not understand', async () => {
    for (const args of [[], ['--into', 'x', '--keep', '0'], ['x', '--into', 'y'], ['--into', 'x', '--verify', 'y']]) {
      expect(backup.read(args)).has.property('wrong');
    }
    for (const args of [[], ['--from', 'x', 'y']]) expect(restoreCommand.read(args)).has.property('wrong');
    const nothing = await runAdmin(source.settings, ['backup', '--verify', tmpdir()]);
    expect(nothing).deep.include({ code: 1, stderr: `There is no complete backup in ${tmpdir()}.\n` });
  });

  it('restores only where nothing is', async () => {
    const used = await restore({ settings: source.settings as Record<string, string> });
    expect(used.code).equal(1);
    expect(used.stderr).match(
      /^The database is not empty: it has \d+ tables\. docs\/backup\.md says how to empty it\.\n$/,
    );
  });

  it('restores only where nobody else is', async () => {
    const place = await newPlace();
    const worker = createContainer(loadConfig(place.settings), 'worker');
    await worker.db.raw('select 1');
    const refusal = await worker.restores.restore(folder, () => undefined).then(() => '', reasonOf);
    expect(refusal).equal('This database is in use (worker): stop what uses it first.');
    await worker.close();
  });

  it('restores one at a time, and backs nothing up meanwhile', async () => {
    const { settings } = await newPlace();
    const [first, second] = [0, 1].map(() => createContainer(loadConfig(settings), 'admin'));
    if (first === undefined || second === undefined) throw new Error('there are two');
    const refusals: Promise<string>[] = [];
    const refused = (work: Promise<unknown>) => refusals.push(work.then(() => '', reasonOf));
    await first.restores.restore(folder, (line) => {
      if (line !== 'Originals …') return;
      refused(second.restores.restore(folder, () => undefined));
      refused(second.backups.backUp({ folder, keep: null, note: () => undefined }));
    });
    const reason = 'Another command is backing up or restoring this database.';
    expect(await Promise.all(refusals)).deep.equal([reason, reason]);
    await Promise.all([first.close(), second.close()]);
  });

  it('refuses a damaged backup, and says which file it is', async () => {
    const place = await newPlace();
    const { copy, path } = await copyOfFolder();
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

    const checked = await runAdmin(source.settings, ['backup', '--verify', copy]);
    expect(checked.code).equal(1);
    expect(checked.stdout)
      .include(`${damaged} is damaged (${content.length} of ${content.length} bytes).`)
      .include(`${missing} is missing.`)
      .include(`${dump} is damaged (1000 of `)
      .include('2 of 4 originals of');
    const refused = await restore(place, copy);
    expect(refused.code).equal(1);
    expect(refused.stderr).match(/\nThe backup is damaged: nothing was restored\. [^\n]+\n$/);

    // What is deleted is copied anew.
    await rm(damaged);
    await backUp('--into', copy);
    expect((await runAdmin(source.settings, ['backup', '--verify', copy])).code).equal(0);
    await rm(copy, { recursive: true });
  });

  it('refuses a backup of a newer version, of a newer format, and one that is not complete', async () => {
    const place = await newPlace();
    const { copy, path } = await copyOfFolder();
    const manifest = join(path, 'manifest.json');
    const written = JSON.parse(await readFile(manifest, 'utf8'));
    const { restores, close } = createContainer(loadConfig(place.settings), 'admin');
    const refusal = () => restores.restore(copy, () => undefined).then(() => '', reasonOf);
    const refusalOf = async (changes: object) => {
      await writeFile(manifest, JSON.stringify({ ...written, ...changes }));
      return refusal();
    };
    expect(await refusalOf({ migration: '20990101000000_later.ts' })).match(
      /^The backup is of a newer version of the service: this one has no migration 20990101000000_later\.ts\.$/,
    );
    expect(await refusalOf({ postgresMajor: 99 })).match(
      /^The backup is of Postgres 99, and this server is Postgres 18/,
    );
    expect(await refusalOf({ format: 2 })).match(/manifest\.json cannot be understood: format is of another version/);
    await rm(manifest);
    expect(await refusal()).match(/^There is no complete backup in /);
    await close();
    await rm(copy, { recursive: true });
  });

  it('takes no backup that was killed for one, and makes the next of what it left', async () => {
    const { copy } = await copyOfFolder();
    const before = await backupsOf(copy);
    for (const said of ['Originals …', 'The database …']) {
      await killAt(said, source.settings as Record<string, string>, ['backup', '--into', copy]);
      expect(await backupsOf(copy)).deep.equal(before);
    }
    expect((await readdir(copy)).some((name) => name.startsWith('unfinished-'))).equal(true);
    await until('the killed one has let go', async () => {
      return (await runAdmin(source.settings, ['backup', '--into', copy])).code === 0;
    });
    expect((await readdir(copy)).sort()).deep.equal([...(await backupsOf(copy)), 'installation', 'originals']);
    expect((await runAdmin(source.settings, ['backup', '--verify', copy])).code).equal(0);
    await rm(copy, { recursive: true });
  });

  it('leaves alone the backups of another installation', async () => {
    const { copy } = await copyOfFolder();
    const before = await backupsOf(copy);
    await writeFile(join(copy, 'installation'), '2020-01-01T00:00:00.000Z');
    const refused = await runAdmin(source.settings, ['backup', '--into', copy, '--keep', '1']);
    expect(refused.code).equal(1);
    expect(refused.stderr).match(/ has the backups of another installation .*: choose another folder\.\n$/);
    expect(await backupsOf(copy)).deep.equal(before);
    await rm(copy, { recursive: true });
  });

  it('goes on with a restore that was killed', async () => {
    const place = await newPlace();
    for (const said of ['Originals …', 'The database …']) {
      await killAt(said, place.settings, ['restore', '--from', folder]);
    }
    await until('the killed one has let go', async () => (await usersOf(place)).length === 0, 60_000);
    await restoreUpToVectors(place, folder);
    const begun = await migrate(place.settings.DATABASE_URL ?? '').then(() => '', reasonOf);
    expect(begun).match(/^A restore was begun here and has not come to its end: /);
    const backedUp = await runAdmin(place.settings, ['backup', '--into', folder, '--keep', '1']);
    expect(backedUp.stderr).match(/^A restore was begun here and has not come to its end: /m);
    await until('it is restored', async () => (await restore(place)).code === 0);
    const target = await startStack(place.settings);
    try {
      expect(await target.container.db.raw("select to_regclass('backup_restore') as marker")).deep.include({
        rows: [{ marker: null }],
      });
      await signInAgain(target, ada);
      await expectSound(target);
    } finally {
      await target.close();
    }
    expect((await restore(place)).stderr).match(/^The database is not empty/);
  });

  it('goes on with one that was killed amid the vectors, which the backup of an installation with Qdrant lacks', async function () {
    this.timeout(240_000);
    const [url, prefix] = [testQdrantUrl(), newCollectionPrefix()];
    const own = await startStack({ VECTOR_STORE: 'qdrant', QDRANT_URL: url, QDRANT_COLLECTION_PREFIX: prefix });
    const from = join(tmpdir(), `backups-${randomUUID()}`);
    try {
      const place = await createEmptyPlace(own, { VECTOR_STORE: 'pgvector' });
      places.push(place);
      const { ada: owner } = await fillInstallation(own);
      expect(await runAdmin(own.settings, ['backup', '--into', from])).include({ code: 0 });
      await restoreUpToVectors(place, from);
      await killAmidVectors(place, from);
      const restored = await restore(place, from);
      expect(restored).include({ code: 0 });
      expect(restored.stdout).match(/^ {2}vectors +of [1-4] documents, /m);
      const target = await startStack(place.settings);
      try {
        await signInAgain(target, owner);
        await expectSound(target);
      } finally {
        await target.close();
      }
    } finally {
      await own.close();
      await dropCollections({ url, apiKey: null }, prefix);
      await rm(from, { recursive: true, force: true });
    }
  });

  async function killAmidVectors(place: EmptyPlace, from: string): Promise<void> {
    const { db, close } = createContainer(loadConfig(place.settings), 'test');
    const writing = await db.transaction();
    try {
      // Vectors are made document by document, and whoever makes those of the last one waits for this row.
      const [lastChunk] = await db('chunks').orderBy('documentId', 'desc').limit(1);
      await writing.raw('set local idle_in_transaction_session_timeout = 0');
      await writing.raw(
        `insert into chunk_vectors (chunk_id, org_id, document_id, generation, model, embedding)
         values (?, ?, ?, ?, '', '[1]')`,
        [lastChunk.id, lastChunk.orgId, lastChunk.documentId, lastChunk.generation],
      );
      const isAmid = async () => (await db('chunk_vectors').first('chunkId')) !== undefined;
      await killAt('Vectors …', place.settings, ['restore', '--from', from], isAmid);
      // Else the server would end the statement that the killed one has sent.
      await until(
        'the server has let go of it',
        async () => {
          await db.raw(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'admin'",
          );
          return (await usersOf(place)).length === 0;
        },
        60_000,
      );
    } finally {
      await writing.rollback();
      await close();
    }
  }

  /** Commands and their programs, which end a moment after they were killed. */
  async function usersOf({ settings }: EmptyPlace): Promise<unknown[]> {
    const { db, close } = createContainer(loadConfig(settings), 'test');
    const users = await db('pg_stat_activity')
      .whereRaw('datname = current_database()')
      .whereIn('applicationName', ['admin', 'pg_restore']);
    await close();
    return users;
  }

  it('has the original of every row, while documents come and go', async () => {
    const own = await copyOfFolder();
    const place = await newPlace();
    let isOver = false;
    const work = [0, 1, 2].map(async (worker) => {
      for (let turn = 0; !isOver; turn += 1) {
        const { id, embedding_job_id } = await upload(`${worker}-${turn}.txt`, `Text ${worker} of ${turn}.`);
        if (turn % 3 === 0) await ada.delete(`/documents/${id}`, 204);
        else if (turn % 3 === 1) {
          await untilRun(ada, embedding_job_id, 'succeeded');
          const next = { name: 'next.txt', content: `Another text ${worker} of ${turn}.` };
          await ada.upload(`/documents/${id}`, next, 200, { method: 'PATCH' });
        }
      }
    });
    try {
      for (let turn = 0; turn < 3; turn += 1) await backUp('--into', own.copy, '--keep', '2');
    } finally {
      isOver = true;
      await Promise.all(work);
    }
    expect(await backupsOf(own.copy)).lengthOf(2);
    expect(await restore(place, own.copy)).include({ code: 0 });
    const target = await startStack(place.settings);
    try {
      await expectSound(target);
      const again = await signInAgain(target, ada);
      const { items } = (await again.get('/documents?limit=100', 200)).body as { items: { id: string }[] };
      expect(items.length).greaterThan(5);
      for (const { id } of items) expect((await again.raw(`/documents/${id}/file`)).status).equal(200);
    } finally {
      await target.close();
    }
    await rm(own.copy, { recursive: true });
  });

  it('keeps as many backups as it is told, and the originals of those alone', async () => {
    const { copy } = await copyOfFolder();
    const gone = await upload('gone.txt', 'A text that is deleted between two backups.');
    await untilRun(ada, gone.embedding_job_id, 'succeeded');
    await backUp('--into', copy);
    const count = async () => (await readdir(join(copy, 'originals', ada.orgId))).length;
    const withIt = await count();
    await ada.delete(`/documents/${gone.id}`, 204);
    await until('its original is gone', async () => {
      return (await source.container.db('documents').where({ id: gone.id }).first('id')) === undefined;
    });
    await backUp('--into', copy);
    expect(await count()).equal(withIt);
    await backUp('--into', copy, '--keep', '1');
    expect(await backupsOf(copy)).lengthOf(1);
    expect(await count()).equal(withIt - 1);
    await rm(copy, { recursive: true });
  });

  it('backs up all else where the store has lost originals, or damaged them, and says so', async () => {
    const copy = `${folder}-${randomUUID()}`;
    const objects = join(source.config.dataDir, 'blobs', 'objects', ada.orgId);
    const [first = '', second = ''] = await readdir(objects);
    const [damaged, lost] = [join(objects, first), join(objects, second)];
    const contents = [await readFile(damaged), await readFile(lost)] as const;
    await writeFile(damaged, 'something else');
    await rm(lost);
    const told = await runAdmin(source.settings, ['backup', '--into', copy]);
    await writeFile(damaged, contents[0]);
    await writeFile(lost, contents[1]);
    expect(told.code).equal(1);
    for (const name of [first, second]) expect(told.stderr).include(`The store has lost ${ada.orgId}/${name}, or has`);
    expect(told.stderr).match(/\n2 originals are missing in the store itself, or damaged: all else is backed up\.\n$/);
    expect((await runAdmin(source.settings, ['backup', '--verify', copy])).code).equal(0);
    await rm(copy, { recursive: true });
  });

  it('says when there is no program that knows the version of the server', async () => {
    const dumps = createDatabaseDumps({ databaseUrl: source.settings.DATABASE_URL ?? '', programsDir: '/nowhere' });
    const written = { path: join(folder, 'never'), snapshot: 'none', withoutRowsOf: [], without: [] };
    const refusal = await dumps.write({ ...written, serverMajor: 99 }).then(() => '', reasonOf);
    expect(refusal).match(/^There is no pg_dump of Postgres 99 or newer here.*: install its client programs\.$/);
  });

  it('has no secret in clear, and passwords as hashes', async () => {
    const path = join(folder, await newestOf(folder));
    const program = join(source.settings.TOOLS_DIR ?? '', 'embedded_postgres', 'pginstall', 'bin', 'pg_restore');
    const dump = join(path, 'database.dump');
    const { stdout } = await promisify(execFile)(program, ['--file=-', dump], { maxBuffer: 1_000_000_000 });
    expect(stdout)
      .include('$argon2id$')
      .include(loansText.split('\n')[0] ?? '');
    const { ENCRYPTION_KEYS = '', URL_SIGNING_KEY = '', JWT_PRIVATE_KEY = '', DATABASE_URL = '' } = source.settings;
    const secrets = [
      { name: 'password', value: ada.password },
      { name: 'refresh token', value: ada.refreshToken },
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

  it('says when the keys of credentials are others', async () => {
    const { settings } = await newPlace();
    const others = { ...settings, ENCRYPTION_KEYS: `1:${Buffer.alloc(32).toString('base64')}` };
    const { code, stdout } = await restore({ settings: others });
    expect(stdout).match(
      /\n1 connections have credentials that no key of ENCRYPTION_KEYS opens: set the keys of then\.\n/,
    );
    expect(code).equal(1);
  });

  it('lets nobody else but its owner read what it writes', async () => {
    const { stdout } = await promisify(execFile)('find', [folder, '-perm', '/077']);
    expect(stdout).equal('');
    expect(existsSync(join(folder, 'incoming'))).equal(false);
  });
});
