import { createHash, randomUUID } from 'node:crypto';
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { loadConfig } from '#src/config.ts';
import { type Container, createContainer } from '#src/container.ts';
import { anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { runAdmin } from './admin-command.ts';
import { readAvatar, uploadAvatar } from './avatars.ts';
import { aPublishedAgent, aStoredConnection, ask } from './builders.ts';
import type { ApiClient, Member } from './client.ts';
import { docxFile } from './document-fixtures.ts';
import { plainImage } from './images.ts';
import { createEmptyDatabase, testServices } from './services.ts';
import { type Stack, startStack } from './stack.ts';
import { expectStoresMatch } from './stores.ts';
import { createTestNamespace } from './temporal-namespace.ts';
import { until } from './until.ts';
import { untilJob, untilRun } from './until-job.ts';
import { untilClosed } from './workflow-run.ts';

export const loansText = `# Loans

The interest rate of a mortgage loan is 3.5 percent. A loan is repaid in monthly payments over twenty years.`;
const docx = new Uint8Array(docxFile('<w:p><w:r><w:t>Whales are mammals of the sea.</w:t></w:r></w:p>'));
const files = [
  { name: 'loans.md', content: loansText },
  { name: 'rates.csv', content: 'year,rate\n2024,3.5\n2025,3.1\n' },
  {
    name: 'tides.html',
    content: '<html><head><title>Tides</title></head><body><p>The moon draws it.</p></body></html>',
  },
  { name: 'whales.docx', content: docx },
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
export type EmptyPlace = { settings: Record<string, string>; close: () => Promise<void> };

/** @param storage settings of the blob store and the vector store */
async function createEmptyPlace(source: Stack, storage: Record<string, string> = {}): Promise<EmptyPlace> {
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

/** Creates content of each kind, and waits until no work is left. */
async function fillInstallation(source: Stack): Promise<{ ada: Member; agentId: string }> {
  const ada = await source.signUp('Ada');
  for (const file of files) {
    const { embedding_job_id } = (await ada.upload('/documents', file, 201)).body as { embedding_job_id: string };
    await untilRun(ada, embedding_job_id, 'succeeded');
  }
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
  const tables: string[] = await db('pg_tables')
    .where({ schemaname: 'public' })
    .orderBy('tablename')
    .pluck('tablename');
  const hashes: Record<string, string> = {};
  for (const table of tables.filter((name) => !passing.includes(name))) {
    const { rows } = await db.raw<{ rows: { row: string }[] }>(
      'select to_jsonb(t)::text collate "C" as row from ?? t order by 1',
      [table],
    );
    hashes[table] = sha256(rows.map(({ row }) => row).join('\n'));
  }
  return hashes;
}

/** Reads all content as a member. */
async function viewOf(member: ApiClient & { userId: string }) {
  const get = async (path: string) => (await member.get(path, 200)).body as Record<string, unknown>;
  const documents = (await get('/documents?limit=50')).items as { id: string; name: string }[];
  const each = [];
  for (const { id } of documents) {
    const file = await (await member.raw(`/documents/${id}/file`)).arrayBuffer();
    const [document, chunks] = [await get(`/documents/${id}`), await get(`/documents/${id}/chunks`)];
    each.push({ file: sha256(Buffer.from(file)), document, chunks });
  }
  const chats = (await get('/chat')).items as { id: string }[];
  return {
    each,
    folders: await get('/folders'),
    chats: await Promise.all(chats.map(({ id }) => get(`/chat/${id}`))),
    agents: await get('/agents'),
    drafts: await get('/agent-drafts'),
    connections: await get('/connectors/connections'),
    conversations: await get('/logs/conversations'),
    avatar: (await readAvatar(member, `/entity/users/${member.userId}/avatar`)).toString('base64'),
  };
}

async function signInAgain(stack: Stack, { email, password, userId }: Member) {
  const { body } = await stack.anonymous.post('/auth/login', { username: email, password }, 200);
  return { ...stack.anonymous.withToken((body as { access_token: string }).access_token), userId };
}

/** Waits until no work is left, then checks invariants and stores. */
async function expectSound(stack: Stack): Promise<void> {
  const { db, invariants } = stack.container;
  await until('all jobs are done', async () => (await db('jobs').whereNull('finishedAt').first('id')) === undefined);
  expect(await invariants.check()).deep.equal([]);
  await expectStoresMatch(stack);
}

/** Runs the service on a restored place, and checks it. `use` gets the service and its member, signed in again. */
export async function onRestored(
  { settings }: Pick<EmptyPlace, 'settings'>,
  member: Member,
  use: (restored: Awaited<ReturnType<typeof signInAgain>>, target: Stack) => Promise<void> = async () => undefined,
): Promise<void> {
  const target = await startStack(settings, { workers: 'all' });
  try {
    const again = await signInAgain(target, member);
    await use(again, target);
    await expectSound(target);
  } finally {
    await target.close();
  }
}

/** An installation with documents, chats and settings, and a folder for its backups. */
export async function createBackupCase(storage: Record<string, string> = {}) {
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
  return {
    source,
    /** Owner of the content. */
    ada,
    agentId,
    folder,
    /** Runs `backup` and expects success. @returns its output */
    async backUp(...args: string[]): Promise<string> {
      const { code, stdout, stderr } = await runAdmin(source.settings, ['backup', ...args]);
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
    close,
  };
}

export type BackupCase = Awaited<ReturnType<typeof createBackupCase>>;

/** Names of the backups of a folder, oldest first. */
export const backupsOf = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => /^\d{4}-/.test(name)).sort();

/**
 * Backs an installation up, restores it elsewhere and compares the two.
 * @param storage new settings of the blob store and the vector store with each call
 */
export function itBacksUpAndRestores(storage: () => Promise<Record<string, string>>): void {
  let own: BackupCase | undefined;
  // Undefined if the surrounding suite was skipped.
  after(() => own?.close());

  it('restores every row and every byte into an empty place, which then works', async () => {
    own = await createBackupCase(await storage());
    const { source, ada, agentId, folder, backUp, restore, newPlace } = own;
    const place = await newPlace(await storage());
    const before = await viewOf(ada);
    const tables = await hashTables(source.container);

    expect(await backUp('--into', folder))
      .match(/^Backed up to \S+\.\n {2}state of +\S+Z, migration \d+_\w+\n {2}database +\d+ rows in \d+ tables, /)
      .match(/\n {2}originals +4, \d+ kB\n\nNOT included: the keys that decrypt stored credentials/);
    expect(await backUp('--verify', folder)).match(/ is complete and undamaged\.\n/);
    const restored = await restore(place);
    expect(restored.code, restored.stdout + restored.stderr).equal(0);
    expect(restored.stdout)
      .match(/^Restored from /)
      .match(/\nAll sessions have ended: all users have to sign in again\.\n/);
    const reader = createContainer(loadConfig(place.settings), 'test');
    expect(await hashTables(reader)).deep.equal(tables);
    await reader.close();

    await onRestored(place, ada, async (again, target) => {
      await target.anonymous.post('/auth/refresh_tokens', { refresh_token: ada.refreshToken }, 401);
      expect((await ada.at(target.baseUrl).raw('/folders')).status).equal(401);
      expect(await viewOf(again)).deep.equal(before);
      await expectSound(target);

      const { citations } = await ask(again, { agent_id: agentId, message: 'How is a loan repaid?' }, 201);
      expect(citations).not.empty;
      for (const { chunk_id } of citations) await again.get(`/documents/chunks/${chunk_id}`, 200);
      const late = { name: 'late.txt', content: 'Written after the restore.' };
      const { embedding_job_id } = (await again.upload('/documents', late, 201)).body as { embedding_job_id: string };
      await untilRun(again, embedding_job_id, 'succeeded');
    });
  });
}
