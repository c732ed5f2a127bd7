import { execFile, spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { migrateDatabase } from '#src/adapters/postgres/database.ts';
import { loadConfig } from '#src/config.ts';
import { type Container, createContainer } from '#src/container.ts';
import { anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { ADMIN, runAdmin } from '#test/support/admin-command.ts';
import { anUpload, aPublishedAgent, aStoredConnection, ask, replaceOriginal } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { docxFile, docxParagraph } from '#test/support/document-fixtures.ts';
import { plainImage, readAvatar, uploadAvatar } from '#test/support/images.ts';
import { createBucket, openBucket, s3Endpoint } from '#test/support/s3.ts';
import { findSecrets } from '#test/support/secret-search.ts';
import { createEmptyDatabase, newCollectionPrefix, testQdrantUrl, testServices } from '#test/support/services.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { createTestNamespace } from '#test/support/temporal.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';
import { untilClosed } from '#test/support/workflow-run.ts';
import { backupCommand, restoreCommand } from '../../scripts/admin/backup.ts';
import { errorReason } from '../../scripts/admin/output.ts';
import { serviceEnvironment } from '../../scripts/launchers/service-environment.ts';

const loansText = `# Loans

The interest rate of a mortgage loan is 3.5 percent. A loan is repaid in monthly payments over twenty years.`;
const files = [
  { name: 'loans.md', content: loansText },
  { name: 'rates.csv', content: 'year,rate\n2024,3.5\n2025,3.1\n' },
  { name: 'tides.html', content: '<html><head><title>Tides</title></head><body><p>The moon.</p></body></html>' },
  { name: 'whales.docx', content: new Uint8Array(docxFile(docxParagraph('Whales are mammals of the sea.'))) },
  // Two documents with the same content share an original.
  { name: 'Loans again.md', content: loansText },
];

/** Tables whose rows are not backed up. */
const passing = [
  ...['refresh_tokens', 'refresh_token_families', 'oauth_states', 'sign_in_states'],
  ...['idempotency_keys', 'rate_limits', 'model_calls', 'model_pauses', 'blob_claims', 'exports', 'export_volumes'],
  // Written by each migration.
  'knex_migrations_lock',
];

/** An empty database, data folder and Temporal namespace to restore into. */
type EmptyPlace = { settings: Record<string, string>; close: () => Promise<void> };

/** @param storage settings of the blob store and the vector store */
async function createEmptyPlace(source: Stack, storage: Record<string, string>): Promise<EmptyPlace> {
  const [dataDir, database, namespace] = await Promise.all([
    mkdtemp(join(tmpdir(), 'restored-')),
    createEmptyDatabase(),
    createTestNamespace(testServices().temporalAddress),
  ]);
  const settings = { DATABASE_URL: database.url, DATA_DIR: dataDir, TEMPORAL_NAMESPACE: namespace, ...storage };
  return {
    settings: { ...source.settings, ...settings },
    close: async () => {
      await database.drop();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

async function ingest(member: ApiClient, file: (typeof files)[number]): Promise<void> {
  const { embedding_job_id } = await anUpload(member, file);
  await untilRun(member, embedding_job_id ?? '', 'succeeded');
}

/** Creates content of each kind, and waits until no work is left. */
async function fillInstallation(source: Stack): Promise<{ ada: Member; agentId: string }> {
  const ada = await source.signUp('Ada');
  for (const file of files) await ingest(ada, file);
  const agentId = await aPublishedAgent(ada);
  const message = 'What is the interest rate of a mortgage loan?';
  const { postprocess_job_id } = await ask(ada, { agent_id: agentId, message }, 201);
  await untilJob(ada, postprocess_job_id, 'succeeded');
  // The run writes the title after its job is done.
  await untilClosed(source.container, postprocess_job_id);
  await untilJob(ada, anchorWordsWorkflowId(agentId), 'succeeded');
  await uploadAvatar(ada, await plainImage({ width: 64, height: 64 }).png().toBuffer(), 200);
  await aStoredConnection(source, ada, 'Reports');
  const outdated = () => source.container.db('connection_schedules').whereNotNull('outdatedAt').first('connectionId');
  await until('its schedule is in line', async () => (await outdated()) === undefined);
  return { ada, agentId };
}

const sha256 = (content: string | Buffer) => createHash('sha256').update(content).digest('hex');

/** Hashes every table that is backed up. */
async function hashTables({ db }: Pick<Container, 'db'>): Promise<Record<string, string>> {
  const tables: string[] = await db('pg_tables').where({ schemaname: 'public' }).pluck('tablename');
  const hashes: Record<string, string> = {};
  for (const table of tables.filter((name) => !passing.includes(name))) {
    const rows = db.raw('select to_jsonb(t)::text collate "C" as row from ?? t order by 1', [table]);
    hashes[table] = sha256((await rows).rows.map(({ row }: { row: string }) => row).join('\n'));
  }
  return hashes;
}

/** Reads all content as a member. */
async function viewOf(member: ApiClient & { userId: string }) {
  const get = async (path: string) => Object((await member.get(path, 200)).body);
  const each = [];
  for (const { id } of (await get('/documents?limit=50')).items) {
    const file = await (await member.raw(`/documents/${id}/file`)).arrayBuffer();
    each.push([sha256(Buffer.from(file)), await get(`/documents/${id}`), await get(`/documents/${id}/chunks`)]);
  }
  const { items: chats } = await get('/chat');
  const lists = ['/folders', '/agents', '/agent-drafts', '/connectors/connections', '/logs/conversations'];
  return {
    each,
    chats: await Promise.all(chats.map(({ id }: { id: string }) => get(`/chat/${id}`))),
    lists: await Promise.all(lists.map(get)),
    avatar: (await readAvatar(member, `/entity/users/${member.userId}/avatar`)).toString('base64'),
  };
}

/** Runs the service on a restored place, and checks it. `use` gets its member, signed in again, and the service. */
async function onRestored(
  { settings }: Pick<EmptyPlace, 'settings'>,
  { email, password, userId }: Member,
  use: (member: ApiClient & { userId: string }, target: Stack) => Promise<void> = async () => undefined,
): Promise<void> {
  const target = await startStack(settings, { workers: 'all' });
  try {
    const { body } = await target.anonymous.post('/auth/login', { username: email, password }, 200);
    await use({ ...target.anonymous.withToken(Object(body).access_token), userId }, target);
    const { db, invariants } = target.container;
    await until('all jobs are done', async () => (await db('jobs').whereNull('finishedAt').first('id')) === undefined);
    expect(await invariants.check()).deep.equal([]);
    await expectStoresMatch(target);
  } finally {
    await target.close();
  }
}

/** An installation with documents, chats and settings, and a folder for its backups. */
async function createBackupCase(storage: Record<string, string> = {}) {
  const source = await startStack(storage, { workers: 'all' });
  const folder = join(tmpdir(), `backups-${randomUUID()}`);
  const closing: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  const close = async () => {
    await source.close();
    for (const end of closing) await end();
  };
  const { ada, agentId } = await fillInstallation(source).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  /** Runs `backup`, which may fail. */
  const tryToBackUp = (...args: string[]) => runAdmin(source.settings, ['backup', ...args]);
  return {
    ...{ source, agentId, folder, tryToBackUp, close },
    /** Owner of the content. */
    ada,
    /** Runs `backup` and expects success. @returns its output */
    async backUp(...args: string[]): Promise<string> {
      const { code, stdout, stderr } = await tryToBackUp(...args);
      expect(code, stdout + stderr).equal(0);
      return stdout;
    },
    /** Runs `restore`, by default from the folder. */
    restore: ({ settings }: Pick<EmptyPlace, 'settings'>, from = folder) =>
      runAdmin(settings, ['restore', '--from', from]),
    /** An empty place, removed together with the installation. */
    async newPlace(changes: Record<string, string> = {}): Promise<EmptyPlace> {
      const place = await createEmptyPlace(source, changes);
      closing.push(place.close);
      return place;
    },
    /** A copy of the folder with the path of its newest backup, for tests that damage it. */
    async copyOfFolder(): Promise<{ copy: string; path: string }> {
      const copy = `${folder}-${randomUUID()}`;
      await cp(folder, copy, { recursive: true });
      closing.push(() => rm(copy, { recursive: true, force: true }));
      return { copy, path: join(copy, (await backupsOf(copy)).at(-1) ?? '') };
    },
  };
}

type BackupCase = Awaited<ReturnType<typeof createBackupCase>>;

/** Names of the backups of a folder, oldest first. */
const backupsOf = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => /^\d{4}-/.test(name)).sort();

/** New settings of the blob store and the vector store with each call. */
const storages: Readonly<Record<string, () => Promise<Record<string, string>>>> = {
  'with originals in files, and vectors in Postgres': async () => ({}),
  'with vectors in Qdrant, which are not in the backup': async () => ({
    VECTOR_STORE: 'qdrant',
    QDRANT_URL: testQdrantUrl(),
    QDRANT_COLLECTION_PREFIX: newCollectionPrefix(),
  }),
  'with originals in S3': async () => (await createBucket(s3Endpoint() ?? '')).environment,
};

describe('backup and restore', function () {
  this.timeout(120_000);

  for (const [title, newStorage] of Object.entries(storages)) {
    it(`restore every row and every byte into an empty installation, which then works (${title})`, async function () {
      if (title.endsWith('S3')) await openBucket(this);
      const own = await createBackupCase(await newStorage());
      const { source, ada, agentId, folder, backUp, restore, newPlace } = own;
      try {
        const place = await newPlace(await newStorage());
        const before = await viewOf(ada);
        const tables = await hashTables(source.container);
        expect(await backUp('--into', folder))
          .match(/^Backed up to \S+\.\n {2}state of +\S+Z, migration \d+_\w+\n {2}database +\d+ rows in \d+ tables, /)
          .match(/\n {2}originals +4, \d+ kB\n\nNOT included: the keys that decrypt stored credentials/);
        expect(await backUp('--verify', folder)).match(/ is complete and undamaged\.\n/);
        const restored = await restore(place);
        expect(restored.code, restored.stdout + restored.stderr).equal(0);
        expect(restored.stdout).match(
          /^Restored from .*\nAll sessions have ended: all users have to sign in again\.\n/s,
        );
        const reader = createContainer(loadConfig(place.settings), 'test');
        expect(await hashTables(reader)).deep.equal(tables);
        await reader.close();

        await onRestored(place, ada, async (again, target) => {
          await target.anonymous.post('/auth/refresh_tokens', { refresh_token: ada.refreshToken }, 401);
          expect((await ada.at(target.baseUrl).raw('/folders')).status).equal(401);
          expect(await viewOf(again)).deep.equal(before);
          const { citations } = await ask(again, { agent_id: agentId, message: 'How is a loan repaid?' }, 201);
          expect(citations).not.empty;
          for (const { chunk_id } of citations) await again.get(`/documents/chunks/${chunk_id}`, 200);
          await ingest(again, { name: 'late.txt', content: 'Written after the restore.' });
        });
      } finally {
        await own.close();
      }
    });
  }
});

describe('backup and restore, when something is wrong,', function () {
  this.timeout(120_000);
  let own: BackupCase;
  before(async () => {
    own = await createBackupCase();
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

  it('refuse to begin a second restore, or a backup, during a restore', async () => {
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

  it('refuse a damaged backup and name the damaged files', async () => {
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
    const refused = await own.tryToBackUp('--into', copy, '--keep', '1');
    expect(refused.stderr).match(/ has the backups of another installation .*: choose another folder\.\n$/);
    expect(await backupsOf(copy)).deep.equal(before);
  });

  it('include the original of every row although documents are uploaded and deleted meanwhile', async () => {
    const { copy } = await own.copyOfFolder();
    const place = await own.newPlace();
    let isOver = false;
    const work = [0, 1, 2].map(async (worker) => {
      for (let turn = 0; !isOver; turn += 1) {
        const file = { name: `${worker}-${turn}.txt`, content: `Text ${worker} of ${turn}.` };
        const { id, embedding_job_id } = await anUpload(own.ada, file);
        if (turn % 3 === 0) await own.ada.delete(`/documents/${id}`, 204);
        else if (turn % 3 === 1) {
          await untilRun(own.ada, embedding_job_id ?? '', 'succeeded');
          await replaceOriginal(own.ada, id, { name: 'next.txt', content: `Another text ${worker} of ${turn}.` });
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
      const { items } = Object((await again.get('/documents?limit=100', 200)).body);
      expect(items.length).greaterThan(5);
      for (const { id } of items) expect((await again.raw(`/documents/${id}/file`)).status).equal(200);
    });
  });

  it('back up all other data if the store has lost or damaged originals, and report these originals', async () => {
    const copy = `${own.folder}-${randomUUID()}`;
    const objects = join(own.source.config.dataDir, 'blobs', 'objects', own.ada.orgId);
    const [first = '', second = ''] = await readdir(objects);
    const [damaged, lost] = [join(objects, first), join(objects, second)];
    const contents = [await readFile(damaged), await readFile(lost)] as const;
    await writeFile(damaged, 'something else');
    await rm(lost);
    const told = await own.tryToBackUp('--into', copy);
    await writeFile(damaged, contents[0]);
    await writeFile(lost, contents[1]);
    expect(told.code).equal(1);
    for (const name of [first, second])
      expect(told.stderr).include(`The store has lost ${own.ada.orgId}/${name}, or has`);
    expect(told.stderr).match(/\n2 originals are missing or damaged in the store\. Everything else is backed up\.\n$/);
    expect((await own.tryToBackUp('--verify', copy)).code).equal(0);
  });

  it('write no secret in plain text and only hashes of passwords, to files that only their owner can read', async () => {
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

  it('report credentials that the configured keys cannot decrypt', async () => {
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

  it('ignore an interrupted backup, and reuse its originals for the next backup', async () => {
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
    expect((await own.tryToBackUp('--verify', copy)).code).equal(0);
  });

  it('continue an interrupted restore', async () => {
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
