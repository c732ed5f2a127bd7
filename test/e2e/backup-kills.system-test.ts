import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir, rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { migrateDatabase } from '#src/adapters/postgres/database.ts';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import { ADMIN, runAdmin } from '#test/support/admin-command.ts';
import { type BackedUp, backUpInstallation, backupsOf } from '#test/support/backed-up.ts';
import { type EmptyPlace, expectSound, signInAgain } from '#test/support/backup-story.ts';
import { dropCollections, newCollectionPrefix } from '#test/support/qdrant.ts';
import { testQdrantUrl } from '#test/support/services.ts';
import { startStack } from '#test/support/stack.ts';
import { until } from '#test/support/until.ts';
import { errorReason } from '../../scripts/admin/output.ts';
import { serviceEnvironment } from '../../scripts/launchers/service-environment.ts';

describe('interrupted backups and restores', function () {
  this.timeout(120_000);
  let own: BackedUp;
  before(async () => {
    own = await backUpInstallation();
  });
  after(() => own?.close());

  /** Kills the command once it has printed a line and, if given, a condition holds. */
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
      await Promise.race([isSaid.then(() => until(`it is amid "${said}"`, isTime)), closed]);
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
      await killAt(said, own.source.settings as Record<string, string>, ['backup', '--into', copy]);
      await untilNoCommand(own.source);
      expect(await backupsOf(copy)).deep.equal(before);
    }
    expect((await readdir(copy)).some((name) => name.startsWith('unfinished-'))).equal(true);
    await own.backUp('--into', copy);
    expect((await readdir(copy)).sort()).deep.equal([...(await backupsOf(copy)), 'installation', 'originals']);
    expect((await runAdmin(own.source.settings, ['backup', '--verify', copy])).code).equal(0);
    await rm(copy, { recursive: true });
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
    const target = await startStack(place.settings, { workers: 'all' });
    try {
      expect(await target.container.db.raw("select to_regclass('backup_restore') as marker")).deep.include({
        rows: [{ marker: null }],
      });
      await signInAgain(target, own.ada);
      await expectSound(target);
    } finally {
      await target.close();
    }
    expect((await own.restore(place)).stderr).match(/^The database is not empty/);
  });

  it('continues a restore that was interrupted while it wrote vectors to Qdrant', async function () {
    this.timeout(240_000);
    const [url, prefix] = [testQdrantUrl(), newCollectionPrefix()];
    let other: BackedUp | undefined;
    try {
      other = await backUpInstallation({ VECTOR_STORE: 'qdrant', QDRANT_URL: url, QDRANT_COLLECTION_PREFIX: prefix });
      const place = await other.newPlace({ VECTOR_STORE: 'pgvector' });
      await restoreUpToVectors(place, other.folder);
      await killAmidVectors(place, other.folder);
      const restored = await other.restore(place);
      expect(restored).include({ code: 0 });
      expect(restored.stdout).match(/^ {2}vectors +of [1-4] documents, /m);
      const target = await startStack(place.settings, { workers: 'all' });
      try {
        await signInAgain(target, other.ada);
        await expectSound(target);
      } finally {
        await target.close();
      }
    } finally {
      await other?.close();
      await dropCollections({ url, apiKey: null }, prefix);
    }
  });

  async function killAmidVectors(place: EmptyPlace, from: string): Promise<void> {
    const { db, close } = createContainer(loadConfig(place.settings), 'test');
    const writing = await db.transaction();
    try {
      // An uncommitted row with the same key blocks the restore when it writes the vectors of the last document.
      const [lastChunk] = await db('chunks').orderBy('documentId', 'desc').limit(1);
      await writing.raw('set local idle_in_transaction_session_timeout = 0');
      await writing.raw(
        `insert into chunk_vectors (chunk_id, org_id, document_id, generation, model, embedding)
         values (?, ?, ?, ?, '', '[1]')`,
        [lastChunk.id, lastChunk.orgId, lastChunk.documentId, lastChunk.generation],
      );
      const isAmid = async () => (await db('chunk_vectors').first('chunkId')) !== undefined;
      await killAt('Vectors …', place.settings, ['restore', '--from', from], isAmid);
      // Without it the server would finish the statement of the killed process.
      await db.raw(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'admin'",
      );
      await untilNoCommand(place);
    } finally {
      await writing.rollback();
      await close();
    }
  }

  /** Waits until the killed command and its child processes have disconnected from the database. */
  async function untilNoCommand({ settings }: { settings: NodeJS.ProcessEnv }): Promise<void> {
    const { db, close } = createContainer(loadConfig(settings), 'test');
    const database = new URL(settings.DATABASE_URL ?? '').pathname.slice(1);
    // A child that was just started may not have connected yet.
    const hasProgram = () =>
      promisify(execFile)('pgrep', ['-f', `dbname=.*/${database}`]).then(
        () => true,
        () => false,
      );
    const hasSession = async () => {
      const sessions = db('pg_stat_activity').whereRaw('datname = current_database()');
      return (await sessions.whereIn('applicationName', ['admin', 'pg_dump', 'pg_restore']).first('pid')) !== undefined;
    };
    try {
      await until('the killed one has let go', async () => !(await hasProgram()) && !(await hasSession()));
    } finally {
      await close();
    }
  }
});
