import { createHash, randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
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
export async function createEmptyPlace(source: Stack, storage: Record<string, string> = {}): Promise<EmptyPlace> {
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
export async function fillInstallation(source: Stack): Promise<{ ada: Member; agentId: string }> {
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

/** Hashes every table that is backed up. */
export async function hashTables({ db }: Pick<Container, 'db'>): Promise<Record<string, string>> {
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
    hashes[table] = createHash('sha256')
      .update(rows.map(({ row }) => row).join('\n'))
      .digest('hex');
  }
  return hashes;
}

/** Reads all content as a member. */
async function viewOf(member: ApiClient & { userId: string }) {
  const get = async (path: string) => (await member.get(path, 200)).body as Record<string, unknown>;
  const documents = (await get('/documents?limit=50')).items as { id: string; name: string }[];
  const each = [];
  for (const { id } of documents) {
    const file = await member.raw(`/documents/${id}/file`);
    each.push({
      file: createHash('sha256')
        .update(Buffer.from(await file.arrayBuffer()))
        .digest('hex'),
      document: await get(`/documents/${id}`),
      chunks: await get(`/documents/${id}/chunks`),
    });
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

export async function signInAgain(stack: Stack, { email, password, userId }: Member) {
  const { body } = await stack.anonymous.post('/auth/login', { username: email, password }, 200);
  return { ...stack.anonymous.withToken((body as { access_token: string }).access_token), userId };
}

/** Waits until no work is left, then checks invariants and stores. */
export async function expectSound(stack: Stack): Promise<void> {
  const { container } = stack;
  await until(
    'all jobs are done',
    async () => (await container.db('jobs').whereNull('finishedAt').first('id')) === undefined,
  );
  expect(await container.invariants.check()).deep.equal([]);
  await expectStoresMatch(stack);
}

/**
 * Backs an installation up, restores it elsewhere and holds the one against the other.
 * @param storage settings of where originals and vectors are, other ones with each call
 */
export function itBacksUpAndRestores(storage: () => Promise<Record<string, string>>): void {
  let source: Stack;
  let place: EmptyPlace;
  let folder: string;

  before(async () => {
    source = await startStack(await storage(), { workers: 'all' });
    place = await createEmptyPlace(source, await storage());
    folder = join(tmpdir(), `backups-${randomUUID()}`);
  });
  after(async () => {
    // Undefined if the surrounding suite was skipped.
    await source?.close();
    await place?.close();
    if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  });

  it('makes of an empty place what there was, row by row and byte by byte', async () => {
    const { ada, agentId } = await fillInstallation(source);
    const before = await viewOf(ada);
    const tables = await hashTables(source.container);

    const backup = await runAdmin(source.settings, ['backup', '--into', folder]);
    expect(backup.code, backup.stderr).equal(0);
    expect(backup.stdout)
      .match(/^Backed up to \S+\.\n {2}state of +\S+Z, migration \d+_\w+\n {2}database +\d+ rows in \d+ tables, /)
      .match(/\n {2}originals +4, \d+ kB\n\nNOT included: the keys that decrypt stored credentials/);
    const checked = await runAdmin(source.settings, ['backup', '--verify', folder]);
    expect(checked.code, checked.stdout + checked.stderr).equal(0);
    expect(checked.stdout).match(/ is complete and undamaged\.\n/);

    const restored = await runAdmin(place.settings, ['restore', '--from', folder]);
    expect(restored.code, restored.stdout + restored.stderr).equal(0);
    expect(restored.stdout)
      .match(/^Restored from /)
      .match(/\nAll sessions have ended: all users have to sign in again\.\n/);
    const reader = createContainer(loadConfig(place.settings), 'test');
    expect(await hashTables(reader)).deep.equal(tables);
    await reader.close();

    const target = await startStack(place.settings, { workers: 'all' });
    try {
      await target.anonymous.post('/auth/refresh_tokens', { refresh_token: ada.refreshToken }, 401);
      expect((await ada.at(target.baseUrl).raw('/folders')).status).equal(401);
      const again = await signInAgain(target, ada);
      expect(await viewOf(again)).deep.equal(before);
      await expectSound(target);

      const message = 'How is a loan repaid?';
      const answer = await ask(again, { agent_id: agentId, message }, 201);
      const citations = answer.citations ?? [];
      expect(citations).not.empty;
      for (const { chunk_id } of citations) await again.get(`/documents/chunks/${chunk_id}`, 200);
      const late = { name: 'late.txt', content: 'Written after the restore.' };
      const { embedding_job_id } = (await again.upload('/documents', late, 201)).body as { embedding_job_id: string };
      await untilRun(again, embedding_job_id, 'succeeded');
      await expectSound(target);
    } finally {
      await target.close();
    }
  });
}
