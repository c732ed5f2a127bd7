import { expect } from 'chai';
import {
  connectorProviderLabels,
  type OAuthConnectorProvider,
  oauthConnectorProviders,
} from '#src/domain/documents/connector-providers.ts';
import type { Member } from './client.ts';
import { type ConnectorStack, connect, consentTo } from './connector-stack.ts';
import { finishConsent } from './finish-consent.ts';
import {
  connectSynced,
  countsOf,
  importFiles,
  noChanges,
  shelf,
  sync,
  syncsOf,
  untilIngested,
} from './import-stack.ts';
import { auditEntries } from './stored-rows.ts';
import { untilRun } from './until-job.ts';

/**
 * Behaviour that every OAuth provider must show through the whole service. The everyday run checks it for Google Drive,
 * the system run for the other providers.
 */
export type ProviderCase = { api: ConnectorStack; member: Member; provider: OAuthConnectorProvider };

export const otherProviders = oauthConnectorProviders.filter((provider) => provider !== 'acme_drive');

export const connectionPath = (id: string, rest = '') => `/connectors/connections/${id}${rest}`;

export async function reportsRevokedGrantOnRefresh({ api, member, provider }: ProviderCase): Promise<void> {
  const fake = api.fakes[provider];
  const { id } = await connect(api, member, provider);
  const refresh = async () => Object((await member.patch(connectionPath(id, '/refresh'), undefined, 200)).body);
  fake.expireTokens();
  await api.container.db('connections').where({ id }).update({ status: 'error', lastError: 'x' });
  expect(await refresh()).include({ status: 'active', last_error: null });
  fake.revokeGrants();
  const revoked = await refresh();
  expect(revoked).include({ status: 'needs_reauth' });
  expect(revoked.last_error).match(/^needs_reauth: /);
  expect(await refresh()).include({ status: 'needs_reauth' });
  const actions = (await auditEntries(api, id)).map(({ action }) => action);
  expect(actions.filter((action) => action === 'connection.needs_reauth')).length(1);
}

export async function revokesGrantOnDelete({ api, member, provider }: ProviderCase): Promise<void> {
  const fake = api.fakes[provider];
  const { id } = await connect(api, member, provider);
  const before = fake.liveGrants();
  await member.delete(connectionPath(id), 204);
  // Microsoft has no endpoint that revokes a grant.
  expect(before - fake.liveGrants()).equal(provider === 'acme_drive' || provider === 'acme_dropbox' ? 1 : 0);
  await member.get(connectionPath(id), 404);
  expect((await auditEntries(api, id)).at(-1)).include({ action: 'connection.deleted' });
}

type ListedFile = { name: string; path: string; is_folder: boolean; size_bytes: number };

export async function browse(member: Member, id: string, fields: object = {}, status = 200) {
  return Object((await member.post(connectionPath(id, '/browse'), fields, status)).body);
}

/** Every page of a folder. */
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

export async function browsesPages({ api, member, provider }: ProviderCase): Promise<void> {
  const { tree } = api.fakes[provider];
  const top = `browse-${crypto.randomUUID().slice(0, 8)}`;
  tree.add(`${top}/a.txt`, 'hello');
  tree.add(`${top}/deep/er/b.txt`, 'deep');
  const { id } = await connect(api, member, provider);
  const root = await browseAll(member, id, '');
  expect(root.find(({ name }) => name === top)).include({ path: top, is_folder: true, size_bytes: 0 });
  const [file, folder] = (await browseAll(member, id, top)).toSorted((a, b) => a.path.localeCompare(b.path));
  expect(file).include({ path: `${top}/a.txt`, is_folder: false, size_bytes: 5 });
  expect(folder).include({ path: `${top}/deep`, is_folder: true });
  expect((await browseAll(member, id, `${top}/deep/er`)).map(({ name }) => name)).deep.equal(['b.txt']);
}

export async function createsConnectionOnConsent({ api, member, provider }: ProviderCase): Promise<void> {
  const path = await consentTo(api, member, provider, { account: 'ada@example.com' });
  const { body, headers } = await finishConsent(api, member, path);
  expect(headers.get('cache-control')).equal('no-store');
  const { connection } = Object(body);
  expect(connection).include({ provider, status: 'active', last_error: null, user_id: member.userId });
  expect(connection.display_name).contain(connectorProviderLabels[provider]);
  expect(Object.keys(connection.config)).deep.equal(provider === 'acme_sharepoint' ? ['site_id'] : []);
  for (const secret of api.fakes[provider].secrets) expect(JSON.stringify(body)).not.contain(secret);
  expect((await member.get(connectionPath(connection.id), 200)).body).deep.equal(connection);
  const [entry] = await auditEntries(api, connection.id);
  expect(entry).deep.include({ actorId: member.userId, action: 'connection.created' });
  expect(entry?.detail).deep.equal({ provider });
}

/** Lists the root folder with the connection's stored credentials, renewing them if needed. */
export function listRoot({ container }: Pick<ConnectorStack, 'container'>, orgId: string, connectionId: string) {
  return container.connectorCredentials.use({ orgId, connectionId, requestId: 'r' }, (access, connector) =>
    connector.list(access, { path: '' }, null),
  );
}

export async function renewsTokenOnceForConcurrentCallers({ api, member, provider }: ProviderCase): Promise<void> {
  const { calls } = api.fakes[provider];
  const { id } = await connect(api, member, provider);
  const row = () => api.container.db('connections').where({ id });
  const tokenCalls = () => calls.filter(({ url }) => url.pathname.endsWith('/token')).length;
  for (const _ of [1, 2]) {
    await row().update({ expiresAt: new Date(0) });
    const before = tokenCalls();
    await Promise.all(Array.from({ length: 10 }, () => listRoot(api, member.orgId, id)));
    expect(tokenCalls()).equal(before + 1);
  }
  expect((await row())[0]).include({ status: 'active', generation: 3 });
}

/** @param options.member a user without documents */
export async function importsAndSkipsUnchangedFiles({ api, member, provider }: ProviderCase): Promise<void> {
  const { tree, downloads } = api.fakes[provider];
  const at = `of ${member.userId}`;
  const plan = { path: `${at}/plan.txt` };
  tree.add(plan.path, 'The plan is short.');
  tree.add(`${at}/Reports/march.md`, '# March\n\nRain.');
  tree.add(`${at}/Reports/old/2019.txt`, 'Long ago.');
  const { id: connection_id } = await connect(api, member, provider);
  const importAll = (files: object[]) => importFiles(member, { connection_id, files });
  const both = [plan, { name: 'Reports', folder: at }];
  const before = downloads.length;
  const results = await importAll(both);
  expect(results.map(({ status }) => status)).deep.equal(['queued', 'queued', 'queued']);
  expect(downloads.length - before).equal(3);
  for (const { job_id } of results) await untilRun(member, job_id, 'succeeded');
  const [first] = results;
  const read = async () => (await member.get(`/documents/${first?.document_id}`, 200)).body;
  expect(await read()).include({
    ...{ name: 'plan.txt', content: 'The plan is short.', import_source_provider: provider },
    import_source_url: `${provider}:/of%20${member.userId}/plan.txt`,
  });
  expect(await shelf(member)).deep.equal(['Reports/march.md', 'Reports/old/2019.txt', 'plan.txt']);

  const again = await importAll([{ file_id: first?.file_id }, ...both]);
  expect(again.map(({ status }) => status)).deep.equal(['unchanged', 'unchanged', 'unchanged', 'unchanged']);
  // Two items name the same file, and each has its result.
  const same = [first, ...results].map((result) => result?.document_id);
  expect(again.map(({ document_id }) => document_id)).deep.equal(same);
  tree.edit(plan.path, 'The plan is longer.');
  const [edited] = await importAll([plan]);
  expect(edited).include({ status: 'queued', document_id: first?.document_id });
  await untilRun(member, edited?.job_id ?? '', 'succeeded');
  expect(await read()).include({ content: 'The plan is longer.' });
  expect(downloads.length - before).equal(4);
}

export async function mirrorsChanges({ api, provider }: Omit<ProviderCase, 'member'>): Promise<void> {
  const { tree, downloads } = api.fakes[provider];
  const root = `synced by ${provider}`;
  for (const name of ['a.txt', 'b.txt', 'c.txt', 'sub/d.txt', 'sub/e.txt']) tree.add(`${root}/${name}`);
  tree.add('elsewhere/x.txt');
  const { member, id } = await connectSynced(api, provider, root);
  const first = await sync(member, id);
  expect(first).include({ mode: 'full', ...noChanges, added: 5 });
  expect(await shelf(member)).deep.equal(['a.txt', 'b.txt', 'c.txt', 'sub/d.txt', 'sub/e.txt']);
  await untilIngested(member);

  let before = downloads.length;
  expect(countsOf(await sync(member, id))).deep.equal(noChanges);
  tree.edit(`${root}/a.txt`, 'Edited.');
  tree.rename(`${root}/b.txt`, 'renamed.txt');
  tree.move(`${root}/c.txt`, `${root}/sub`);
  const gone = tree.remove(`${root}/sub/d.txt`);
  tree.add(`${root}/new/f.txt`);
  const second = await sync(member, id);
  expect(second).include({ mode: 'delta', added: 1, updated: 3, deleted: 1, failed: 0 });
  expect(await shelf(member)).deep.equal(['a.txt', 'new/f.txt', 'renamed.txt', 'sub/c.txt', 'sub/e.txt']);
  expect(downloads.length - before).equal(2);

  before = downloads.length;
  tree.restore(gone);
  tree.rename(`${root}/sub`, 'below');
  const third = await sync(member, id);
  expect(third).include({ added: 1, deleted: 0, failed: 0 });
  const names = ['a.txt', 'below/c.txt', 'below/d.txt', 'below/e.txt', 'new/f.txt', 'renamed.txt'];
  expect(await shelf(member)).deep.equal(names);
  expect(downloads.length - before).equal(1);

  tree.remove(`${root}/below`);
  expect(await sync(member, id)).include({ deleted: 3 });
  expect(await shelf(member)).deep.equal(['a.txt', 'new/f.txt', 'renamed.txt']);
  const { id: documentId } = await documentCalled(member, 'a.txt');
  await member.delete(`/documents/${documentId}`, 204);
  api.fakes[provider].forgetChanges();
  expect(await sync(member, id)).include({ mode: 'full', ...noChanges, unchanged: 3 });
  expect(await syncsOf(member, id)).length(6);
}

export async function documentCalled(member: Member, name: string) {
  const { items } = Object((await member.get('/documents?limit=100', 200)).body);
  return items.find((item: { name: string }) => item.name === name);
}
