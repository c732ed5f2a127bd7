import { expect } from 'chai';
import type { OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { Member } from './client.ts';
import { type ConnectorStack, connect, startConnectorStack } from './connector-stack.ts';
import { shared } from './stack.ts';
import { until } from './until.ts';
import { untilJob } from './until-job.ts';

type ListedFile = { name: string; path: string; is_folder: boolean; size_bytes: number };
type ErrorView = { code: string; message: string };
type ImportResultView = Record<'job_id' | 'status', string> &
  Record<'file_id' | 'document_id', string | null> & { error: ErrorView | null };
type SyncRunView = Record<'id' | 'job_id' | 'status', string> &
  typeof noChanges & { mode: string | null; last_error: ErrorView | null };

/** The API and the workers with a fake server for each file provider; all tests of a process share it. */
export const importStack = shared(() => startConnectorStack({}, { workers: true }));

export const connectionPath = (id: string, rest = '') => `/connectors/connections/${id}${rest}`;

export async function browse(member: Member, id: string, fields: object = {}, status = 200) {
  return Object((await member.post(connectionPath(id, '/browse'), fields, status)).body);
}

export async function browseAll(member: Member, id: string, path: string): Promise<ListedFile[]> {
  const all: ListedFile[] = [];
  for (let page: string | null = null; ; ) {
    const found = await browse(member, id, { path, ...(page !== null && { page }) });
    expect(found.path).equal(path);
    all.push(...found.files);
    page = found.next_page;
    if (page === null) return all;
  }
}

export async function importFiles(
  member: Member,
  body: Record<string, unknown>,
  { wait = 60 }: { wait?: number } = {},
): Promise<ImportResultView[]> {
  const answer = await member.post('/documents/import-from-connector', body, 200, { prefer: `wait=${wait}` });
  return Object(answer.body).results;
}

/** Signs up a user whose connection syncs a folder into the personal root, on request only unless `config` says otherwise. */
export async function connectSynced(
  api: ConnectorStack,
  provider: OAuthConnectorProvider,
  folder: string,
  config: object = {},
) {
  const member = await api.signUp();
  const { id }: { id: string } = await connect(api, member, provider);
  const path = connectionPath(id);
  const wanted = { enabled: false, interval_minutes: 5, folder, delete_missing: true, ...config };
  await member.patch(path, { config: { sync: wanted } }, 200);
  return {
    member,
    id,
    path,
    run: (status?: string) => sync(member, id, status),
    runs: () => syncsOf(member, id),
    names: () => shelf(member),
  };
}

/** Runs a sync until its job has this status. */
export async function sync(member: Member, connectionId: string, status = 'succeeded'): Promise<SyncRunView> {
  const { body } = await member.post(connectionPath(connectionId, '/sync'), {}, 202);
  await untilJob(member, Object(body).job_id, status);
  const [newest] = await syncsOf(member, connectionId);
  expect(newest?.id).equal(Object(body).id);
  return newest as SyncRunView;
}

export async function syncsOf(member: Member, connectionId: string): Promise<SyncRunView[]> {
  return Object((await member.get(connectionPath(connectionId, '/syncs'), 200)).body).items;
}

export const noChanges = { added: 0, updated: 0, unchanged: 0, deleted: 0, failed: 0 };

export async function untilIngested(member: Member): Promise<void> {
  await until('every ingestion has succeeded', async () => {
    const { body } = await member.get('/jobs/summary?kind=ingest', 200);
    return Object(body).succeeded === Object(body).total;
  });
}

export async function documentCalled(member: Member, name: string) {
  const { items } = Object((await member.get('/documents?limit=100', 200)).body);
  return items.find((item: { name: string }) => item.name === name);
}

/** Paths of all documents below the personal root, sorted. */
export async function shelf(member: Member): Promise<string[]> {
  type Node = { name: string; system_role: string | null; folders: Node[]; documents: { name: string }[] };
  const roots = (await member.get('/folders', 200)).body as Node[];
  const below = (node: Node, path: string): string[] => [
    ...node.documents.map(({ name }) => `${path}${name}`),
    ...node.folders.flatMap((folder) => below(folder, `${path}${folder.name}/`)),
  ];
  return roots.flatMap((root) => (root.system_role === 'personal_root' ? below(root, '') : [])).sort();
}
