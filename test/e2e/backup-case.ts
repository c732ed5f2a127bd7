import { randomUUID } from 'node:crypto';
import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { loadConfig } from '#src/config.ts';
import { createContainer } from '#src/container.ts';
import { anchorWordsWorkflowId } from '#src/contracts/workflow-ids.ts';
import { runAdmin } from '#test/support/admin-command.ts';
import { anUpload, aPublishedAgent, aStoredConnection, ask } from '#test/support/builders.ts';
import type { ApiClient, Member } from '#test/support/client.ts';
import { docxFile, docxParagraph } from '#test/support/document-fixtures.ts';
import { plainImage, uploadAvatar } from '#test/support/images.ts';
import { createEmptyDatabase, testServices } from '#test/support/services.ts';
import { type Stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { createTestNamespace } from '#test/support/temporal.ts';
import { until } from '#test/support/until.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';
import { untilClosed } from '#test/support/workflow-run.ts';
import { errorReason } from '../../scripts/admin/output.ts';

export type Settings = Record<string, string>;

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

export async function ingest(member: ApiClient, file: (typeof files)[number]): Promise<void> {
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

export type BackupCase = Awaited<ReturnType<typeof createBackupCase>>;

/**
 * An installation with documents, chats and settings of Ada, and a folder for its backups.
 * @param storage settings of the blob store and the vector store
 */
export async function createBackupCase(storage: Settings = {}) {
  const source = await startStack(storage, { workers: 'all' });
  const folder = join(tmpdir(), `backups-${randomUUID()}`);
  const closing: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  const close = async () => {
    await source.close();
    for (const end of closing) await end();
  };
  const content = await fillInstallation(source).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  const tryToBackUp = (...args: string[]) => runAdmin(source.settings, ['backup', ...args]);
  return {
    source,
    ...content,
    folder,
    close,
    tryToBackUp,
    async backUp(...args: string[]): Promise<string> {
      const { code, stdout, stderr } = await tryToBackUp(...args);
      expect(code, stdout + stderr).equal(0);
      return stdout;
    },
    restore: (settings: Settings, from = folder) => runAdmin(settings, ['restore', '--from', from]),
    /** Settings of an empty database, data folder and Temporal namespace to restore into. */
    async newPlace(changes: Settings = {}): Promise<Settings> {
      const [dataDir, database, namespace] = await Promise.all([
        mkdtemp(join(tmpdir(), 'restored-')),
        createEmptyDatabase(),
        createTestNamespace(testServices().temporalAddress),
      ]);
      closing.push(database.drop, () => rm(dataDir, { recursive: true, force: true }));
      const place = { DATABASE_URL: database.url, DATA_DIR: dataDir, TEMPORAL_NAMESPACE: namespace };
      return { ...source.settings, ...place, ...changes };
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

export const backupsOf = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => /^\d{4}-/.test(name)).sort();

/** The parts of a process with these settings, as `admin` unless another is named. */
export const containerOf = (settings: Settings, role: 'admin' | 'worker' | 'test' = 'admin') =>
  createContainer(loadConfig(settings), role);

export const reasonOf = (work: Promise<unknown>): Promise<string> => work.then(() => '', errorReason);

/** Runs the service on restored data, and checks it. `use` gets its member, signed in again, and the service. */
export async function onRestored(
  settings: Settings,
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
