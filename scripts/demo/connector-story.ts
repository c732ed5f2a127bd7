import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { FakeFiles } from '../../test/support/remote-tree.ts';
import type { ApiClient } from './api-client.ts';
import type { Narrator } from './narrator.ts';

const TIMEOUT_MS = 5 * 60_000;

type Connection = { id: string; provider: string; display_name: string; status: string };
type RemoteFile = { file_id: string; name: string; path: string; size_bytes: number; is_folder: boolean };
type ImportResult = { document_id: string | null; job_id: string; status: string; error: { code: string } | null };
type Job = { status: string; temporal_ui_url: string | null; last_error: { code: string; message: string } | null };
type SyncRun = {
  job_id: string;
  mode: string | null;
  added: number;
  updated: number;
  unchanged: number;
  deleted: number;
  failed: number;
};
type Story = { api: ApiClient; drive: FakeFiles; narrator: Narrator };

/**
 * Connects a drive, browses it, imports three files, and syncs their folder before and after the files change.
 * @param story.files paths of three local files, which are copied to the fake drive
 */
export async function runConnectorDemo({ files, ...story }: Story & { files: string[] }): Promise<void> {
  const { api, drive, narrator } = story;
  const names = files.map((file) => path.basename(file));
  const [edited = '', renamed = '', deleted = ''] = names.map((name) => `Handbook/${name}`);
  for (const file of files) drive.tree.add(`Handbook/${path.basename(file)}`, await readFile(file));
  drive.tree.add('Handbook/Notes/to do.md', '# To do\n\nWrite the chapter about connections.');

  await forgetEarlier(api);
  narrator.heading('Connection');
  const { id } = await connect(story);

  narrator.heading('Files of the drive');
  for (const folder of ['', 'Handbook']) await browse(story, id, folder);

  narrator.heading('Import of three files');
  const asked = { connection_id: id, folder: 'Handbook', files: names.map((name) => ({ name })) };
  await countingDownloads(story, () => importFiles(story, asked));

  narrator.heading('Sync of the folder');
  const sync = { enabled: true, interval_minutes: 60, folder: 'Handbook', delete_missing: true };
  await api.patch(`/connectors/connections/${id}`, { config: { sync } });
  narrator.note('every hour, and the first time now:');
  await countingDownloads(story, () => runSync(story, id));

  narrator.heading('Sync after one file was edited, one renamed and one deleted');
  const { content } = drive.tree.at(edited) ?? { content: '' };
  drive.tree.edit(edited, `${content}\n\nConnections bring files in, and keep them up to date.\n`);
  drive.tree.rename(renamed, `Renamed ${path.basename(renamed)}`);
  drive.tree.remove(deleted);
  await countingDownloads(story, () => runSync(story, id));
}

/**
 * Deletes the connections of an earlier run: its fake drive no longer exists, and its schedules would keep requesting
 * it.
 */
async function forgetEarlier(api: ApiClient): Promise<void> {
  const { items } = await api.get<{ items: Connection[] }>('/connectors/connections');
  for (const { id } of items) await api.delete(`/connectors/connections/${id}`);
}

async function connect({ api, drive, narrator }: Story): Promise<Connection> {
  const consent = await api.get<{ authorize_url: string }>('/connectors/oauth/acme_drive/authorize');
  narrator.note(
    `GET /connectors/oauth/acme_drive/authorize sends the browser to ${new URL(consent.authorize_url).origin}`,
  );
  const back = await drive.consent(consent.authorize_url, { account: 'demo' });
  const answer = await fetch(back);
  if (!answer.ok) throw new Error(`The OAuth callback answered ${answer.status}: ${await answer.text()}`);
  const { consent_code } = (await answer.json()) as { consent_code: string };
  const { connection } = await api.post<{ connection: Connection }>('/connectors/oauth/acme_drive/finish', {
    consent_code,
  });
  narrator.done(connection.display_name, `${connection.provider}, ${connection.status}`, null);
  return connection;
}

async function browse({ api, narrator }: Story, id: string, folder: string): Promise<void> {
  const { files } = await api.post<{ files: RemoteFile[] }>(`/connectors/connections/${id}/browse`, { path: folder });
  for (const { path: at, is_folder, size_bytes } of files) {
    narrator.line(`  ${at}${is_folder ? '/' : `  ${size_bytes.toLocaleString('en')} bytes`}`);
  }
}

async function importFiles({ api, narrator }: Story, asked: { files: { name: string }[] }): Promise<void> {
  const { results } = await api.post<{ results: ImportResult[] }>('/documents/import-from-connector', asked);
  for (const [index, { status, job_id, error }] of results.entries()) {
    const name = asked.files[index]?.name ?? '';
    if (error !== null) narrator.failed(name, error.code, null);
    else narrator.done(name, (await endOf(api, job_id)).end, null);
    if (status !== 'queued') narrator.note(status);
  }
}

async function runSync({ api, narrator }: Story, id: string): Promise<void> {
  const { job_id } = await api.post<SyncRun>(`/connectors/connections/${id}/sync`, {});
  const { end, link } = await endOf(api, job_id);
  const { items } = await api.get<{ items: SyncRun[] }>(`/connectors/connections/${id}/syncs?limit=1`);
  const [run] = items;
  if (run === undefined) throw new Error(`The connection ${id} has no sync run.`);
  const { added, updated, unchanged, deleted, failed, mode } = run;
  const counts = Object.entries({ added, updated, unchanged, deleted, failed }).map(
    ([what, count]) => `${count} ${what}`,
  );
  narrator.done(`sync (${mode ?? 'none'})`, `${end}: ${counts.join(', ')}`, link);
}

async function countingDownloads({ drive, narrator }: Story, work: () => Promise<void>): Promise<void> {
  const before = drive.downloads.length;
  await work();
  narrator.note(`files downloaded from the provider: ${drive.downloads.length - before}`);
}

async function endOf(api: ApiClient, jobId: string): Promise<{ end: string; link: string | null }> {
  const deadline = Date.now() + TIMEOUT_MS;
  for (;;) {
    const { status, last_error, temporal_ui_url: link } = await api.get<Job>(`/jobs/${jobId}`);
    if (status === 'failed' || status === 'parked')
      return { end: `${status} (${last_error?.code ?? 'no reason'})`, link };
    if (status === 'succeeded' || status === 'cancelled' || Date.now() > deadline) return { end: status, link };
    await delay(100);
  }
}
