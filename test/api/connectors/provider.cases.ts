import { expect } from 'chai';
import { connectorProviderLabels, type OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { Member } from '#test/support/client.ts';
import { type ConnectorStack, connect, consentTo } from '#test/support/connector-stack.ts';
import { finishConsent } from '#test/support/consents.ts';
import {
  browseAll,
  connectionPath,
  connectSynced,
  documentCalled,
  importFiles,
  importStack,
  noChanges,
  shelf,
  untilIngested,
} from '#test/support/import-stack.ts';
import type { FakeFiles } from '#test/support/remote-tree.ts';
import { auditEntries } from '#test/support/stored-rows.ts';
import { untilRun } from '#test/support/until-job.ts';

/** What a connection to each OAuth provider can do, through the whole service. */
export function itServes(provider: OAuthConnectorProvider): void {
  describe(`a connection to ${connectorProviderLabels[provider]}`, () => {
    let api: ConnectorStack;
    let fake: FakeFiles;
    let ada: Member;
    before(async () => {
      api = await importStack();
      fake = api.fakes[provider];
    });
    beforeEach(async () => {
      ada = await api.signUp();
    });

    const newId = async (): Promise<string> => (await connect(api, ada, provider)).id;
    const row = (id: string) => api.container.db('connections').where({ id });
    /** Lists the root folder with the stored credentials, refreshing them if needed. */
    const listRoot = (connectionId: string) => {
      const of = { orgId: ada.orgId, connectionId, requestId: 'r' };
      return api.container.connectorCredentials.use(of, (access, connector) =>
        connector.list(access, { path: '' }, null),
      );
    };
    const actionsOf = async (id: string) => (await auditEntries(api, id)).map(({ action }) => action);

    it('is created on consent', async () => {
      const path = await consentTo(api, ada, provider, { account: 'ada@example.com' });
      const { body, headers } = await finishConsent(api, ada, path);
      expect(headers.get('cache-control')).equal('no-store');
      const { connection } = Object(body);
      expect(connection).include({ provider, status: 'active', last_error: null, user_id: ada.userId });
      expect(connection.display_name).contain(connectorProviderLabels[provider]);
      expect(Object.keys(connection.config)).deep.equal(provider === 'acme_sharepoint' ? ['site_id'] : []);
      for (const secret of fake.secrets) expect(JSON.stringify(body)).not.contain(secret);
      expect((await ada.get(connectionPath(connection.id), 200)).body).deep.equal(connection);
      const [entry] = await auditEntries(api, connection.id);
      expect(entry).deep.include({ actorId: ada.userId, action: 'connection.created' });
      expect(entry?.detail).deep.equal({ provider });
    });

    it('lists folders and files page by page', async () => {
      fake.tree.add('browsed/a.txt', 'hello');
      fake.tree.add('browsed/deep/er/b.txt', 'deep');
      const id = await newId();
      const root = await browseAll(ada, id, '');
      expect(root.find(({ name }) => name === 'browsed')).include({ path: 'browsed', is_folder: true, size_bytes: 0 });
      const [file, folder] = (await browseAll(ada, id, 'browsed')).toSorted((a, b) => a.path.localeCompare(b.path));
      expect(file).include({ path: 'browsed/a.txt', is_folder: false, size_bytes: 5 });
      expect(folder).include({ path: 'browsed/deep', is_folder: true });
      expect((await browseAll(ada, id, 'browsed/deep/er')).map(({ name }) => name)).deep.equal(['b.txt']);
    });

    it("refreshes an expired access token once for concurrent callers, while the connection's ETag stays", async () => {
      const id = await newId();
      const { headers } = await ada.get(connectionPath(id), 200);
      const tokenCalls = () => fake.calls.filter(({ url }) => url.pathname.endsWith('/token')).length;
      await row(id).update({ expiresAt: new Date(0) });
      const before = tokenCalls();
      await Promise.all(Array.from({ length: 10 }, () => listRoot(id)));
      expect(tokenCalls()).equal(before + 1);
      expect((await row(id))[0]).include({ status: 'active', generation: 2 });
      await ada.patch(connectionPath(id), { display_name: 'Mine' }, 200, { 'if-match': headers.get('etag') ?? '' });
    });

    it('has the status needs_reauth once a refresh finds its grant revoked, with one audit entry for all refreshes', async () => {
      const id = await newId();
      const refresh = async () => Object((await ada.patch(connectionPath(id, '/refresh'), undefined, 200)).body);
      fake.expireTokens();
      await row(id).update({ status: 'error', lastError: 'x' });
      expect(await refresh()).include({ status: 'active', last_error: null });
      fake.revokeGrants();
      const revoked = await refresh();
      expect(revoked).include({ status: 'needs_reauth' });
      expect(revoked.last_error).match(/^needs_reauth: /);
      expect(await refresh()).include({ status: 'needs_reauth' });
      expect(await actionsOf(id)).deep.equal(['connection.created', 'connection.needs_reauth']);
    });

    it('imports files and folders as documents, and reports them as unchanged the next time', async () => {
      const { tree, downloads } = fake;
      const at = `of ${ada.userId}`;
      const plan = { path: `${at}/plan.txt` };
      tree.add(plan.path, 'The plan is short.');
      tree.add(`${at}/Reports/march.md`, '# March\n\nRain.');
      tree.add(`${at}/Reports/old/2019.txt`, 'Long ago.');
      const connection_id = await newId();
      const importAll = (files: object[]) => importFiles(ada, { connection_id, files });
      const both = [plan, { name: 'Reports', folder: at }];
      const before = downloads.length;
      const results = await importAll(both);
      expect(results.map(({ status }) => status)).deep.equal(['queued', 'queued', 'queued']);
      expect(downloads.length - before).equal(3);
      for (const { job_id } of results) await untilRun(ada, job_id, 'succeeded');
      const [first] = results;
      const read = async () => (await ada.get(`/documents/${first?.document_id}`, 200)).body;
      expect(await read()).include({
        name: 'plan.txt',
        content: 'The plan is short.',
        import_source_provider: provider,
        import_source_url: `${provider}:/of%20${ada.userId}/plan.txt`,
      });
      expect(await shelf(ada)).deep.equal(['Reports/march.md', 'Reports/old/2019.txt', 'plan.txt']);

      const again = await importAll([{ file_id: first?.file_id }, ...both]);
      expect(again.map(({ status }) => status)).deep.equal(['unchanged', 'unchanged', 'unchanged', 'unchanged']);
      // Two items name the same file, and each has its result.
      const same = [first, ...results].map((result) => result?.document_id);
      expect(again.map(({ document_id }) => document_id)).deep.equal(same);
      tree.edit(plan.path, 'The plan is longer.');
      const [edited] = await importAll([plan]);
      expect(edited).include({ status: 'queued', document_id: first?.document_id });
      await untilRun(ada, edited?.job_id ?? '', 'succeeded');
      expect(await read()).include({ content: 'The plan is longer.' });
      expect(downloads.length - before).equal(4);
    });

    it('carries edits, renames, moves, deletions and restorations of its files over to the documents', async () => {
      const { tree, downloads } = fake;
      for (const name of ['a.txt', 'b.txt', 'c.txt', 'sub/d.txt', 'sub/e.txt']) tree.add(`synced/${name}`);
      tree.add('elsewhere/x.txt');
      const { member, run, runs, names } = await connectSynced(api, provider, 'synced');
      expect(await run()).include({ mode: 'full', ...noChanges, added: 5 });
      expect(await names()).deep.equal(['a.txt', 'b.txt', 'c.txt', 'sub/d.txt', 'sub/e.txt']);
      await untilIngested(member);

      let before = downloads.length;
      expect(await run()).include(noChanges);
      tree.edit('synced/a.txt', 'Edited.');
      tree.rename('synced/b.txt', 'renamed.txt');
      tree.move('synced/c.txt', 'synced/sub');
      const gone = tree.remove('synced/sub/d.txt');
      tree.add('synced/new/f.txt');
      expect(await run()).include({ mode: 'delta', added: 1, updated: 3, deleted: 1, failed: 0 });
      expect(await names()).deep.equal(['a.txt', 'new/f.txt', 'renamed.txt', 'sub/c.txt', 'sub/e.txt']);
      expect(downloads.length - before).equal(2);

      before = downloads.length;
      tree.restore(gone);
      tree.rename('synced/sub', 'below');
      expect(await run()).include({ added: 1, deleted: 0, failed: 0 });
      const moved = ['a.txt', 'below/c.txt', 'below/d.txt', 'below/e.txt', 'new/f.txt', 'renamed.txt'];
      expect(await names()).deep.equal(moved);
      expect(downloads.length - before).equal(1);

      tree.remove('synced/below');
      expect(await run()).include({ deleted: 3 });
      expect(await names()).deep.equal(['a.txt', 'new/f.txt', 'renamed.txt']);
      const { id: documentId } = await documentCalled(member, 'a.txt');
      await member.delete(`/documents/${documentId}`, 204);
      fake.forgetChanges();
      expect(await run()).include({ mode: 'full', ...noChanges, unchanged: 3 });
      expect(await runs()).length(6);
    });

    it('is deleted, and revokes its grant if the provider has an endpoint for it', async () => {
      const id = await newId();
      const before = fake.liveGrants();
      await ada.delete(connectionPath(id), 204);
      // Microsoft has no endpoint that revokes a grant.
      expect(before - fake.liveGrants()).equal(provider === 'acme_drive' || provider === 'acme_dropbox' ? 1 : 0);
      await ada.get(connectionPath(id), 404);
      expect((await actionsOf(id)).at(-1)).equal('connection.deleted');
    });
  });
}
