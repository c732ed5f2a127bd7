import { expect } from 'chai';
import { oauthConnectorProviders } from '#src/domain/documents/connector-providers.ts';
import type { Connector, OAuthConnectorAccess, RemoteChange } from '#src/ports/connectors.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { type OpenedConnector, openConnector } from '#test/support/opened-connector.ts';
import type { FakeFiles } from '#test/support/remote-tree.ts';
import { itKeepsTheConnectorContract, listAll, unheeded } from '#test/unit/adapters/connectors.contract.ts';

for (const provider of oauthConnectorProviders) {
  describe(`the connector of ${provider}`, () => {
    let fake: FakeFiles;
    let connector: Connector;
    let opened: OpenedConnector;
    let access: OAuthConnectorAccess;
    before(async () => {
      opened = await openConnector(provider);
      ({ fake, connector } = opened);
    });
    beforeEach(() => {
      access = opened.newAccess();
    });
    after(() => opened.close());

    const theCase = () => ({
      connector,
      access: () => access,
      put: async (path: string, content: string | Buffer) => {
        if (fake.tree.at(path) === undefined) fake.tree.add(path, content);
        else fake.tree.edit(path, content);
      },
      pageSize: fake.pageSize,
    });
    const find = (path: string) => connector.find(access, { path });
    const failsAfter = (reply: Parameters<FakeFiles['failNext']>[1], work: () => Promise<unknown>) => {
      fake.failNext(1, reply);
      return work().then(
        () => expect.fail('nothing was wrong'),
        (error: unknown) => Object(error),
      );
    };

    itKeepsTheConnectorContract(theCase);

    it('lists ten thousand files of a folder in at most 60 calls', async () => {
      for (let index = 0; index < 10_000; index += 1) fake.tree.add(`many/${index}.txt`, 'x');
      const before = fake.calls.length;
      const files = await listAll(theCase(), { path: 'many' });
      expect(new Set(files.map(({ fileId }) => fileId)).size).equal(10_000);
      expect(fake.calls.length - before).within(2, 60);
      fake.tree.remove('many');
    });

    it('maps error responses to error codes, with their Retry-After', async () => {
      fake.tree.add('refused/file.txt');
      const file = await find('refused/file.txt');
      const search = () => find('refused/file.txt');
      const download = () => connector.download(access, file, unheeded);
      for (const [reply, work, code] of [
        [{ status: 401, json: {} }, search, 'needs_reauth'],
        [{ status: 404, json: {} }, search, 'remote_file_not_found'],
        [{ status: 400, text: 'Error in call' }, search, 'provider_rejected'],
        [{ status: 429 }, search, 'provider_throttled'],
        [{ status: 503 }, search, 'provider_throttled'],
        [{ status: 500, text: '<html>' }, search, 'provider_unavailable'],
        [{ status: 200, text: '<html>' }, search, 'provider_unavailable'],
        [{ status: 429 }, download, 'provider_throttled'],
        [{ status: 500 }, download, 'provider_unavailable'],
        [{ status: 401 }, download, 'needs_reauth'],
      ] as const) {
        expect(await failsAfter(reply, work)).include({ code });
      }
      const pauseOf = async (after: string) => {
        const reply = { status: 429, headers: { 'retry-after': after } };
        return (await failsAfter(reply, () => connector.check(access))).retryAfterSeconds;
      };
      expect(await pauseOf(new Date(Date.now() + 60_000).toUTCString())).within(50, 61);
      const past = new Date(0).toUTCString();
      expect([await pauseOf('7'), await pauseOf(past), await pauseOf('86400')]).deep.equal([7, 1, 3_600]);
      expect(await pauseOf('soon')).equal(undefined);
    });

    it('throws needs_reauth for expired or revoked tokens, and quotes no token', async () => {
      fake.tree.add('token/file.txt');
      const file = await find('token/file.txt');
      for (const end of [fake.expireTokens, fake.revokeGrants]) {
        access = opened.newAccess();
        end();
        expect(await appErrorCode(connector.check(access))).equal('needs_reauth');
        expect(await appErrorCode(connector.list(access, { path: '' }, null))).equal('needs_reauth');
        expect(await appErrorCode(connector.download(access, file, unheeded))).equal('needs_reauth');
      }
      access = opened.newAccess();
      const { accessToken } = access;
      const json = { error: { code: accessToken }, error_summary: accessToken };
      const error = await failsAfter({ status: 418, json }, () => find('token/file.txt'));
      expect(JSON.stringify(error) + String(error)).not.include(accessToken);
    });

    describe('listing the changes of a drive', () => {
      /** All changes since the cursor, and the cursor after them. */
      async function since(cursor: string) {
        const told: RemoteChange[] = [];
        let answer = { cursor, hasMore: true };
        while (answer.hasMore) {
          const page = await required(connector.changes).since(access, answer.cursor);
          told.push(...page.changes);
          answer = page;
        }
        return { told, cursor: answer.cursor };
      }
      const begin = (path: string) => required(connector.changes).begin(access, { path });
      const present = (told: RemoteChange[]) =>
        told.flatMap((change) => (change.kind === 'present' && !change.file.isFolder ? [change.file.path] : [])).sort();
      const isGone = (told: RemoteChange[], { fileId, path }: { fileId: string; path: string }) =>
        told.some((change) =>
          change.kind === 'gone' ? change.fileId === fileId : change.kind === 'gone-path' && change.path === path,
        );

      it('reports each added, edited, renamed, moved, deleted and restored file once', async () => {
        const { tree } = fake;
        for (const name of ['edited', 'renamed', 'moved', 'removed', 'untouched']) tree.add(`watched/${name}.txt`);
        for (const folder of ['watched/below', 'outside']) tree.addFolder(folder);
        const [removed, left] = [await find('watched/removed.txt'), await find('watched/moved.txt')];
        const first = await begin('watched');
        expect(await since(first)).deep.include({ told: [] });

        for (const path of ['watched/new/deep/new.txt', 'outside/new.txt']) tree.add(path);
        tree.edit('watched/edited.txt', 'edited');
        tree.rename('watched/renamed.txt', 'called otherwise.txt');
        tree.move('watched/moved.txt', 'outside');
        const bin = tree.remove('watched/removed.txt');
        const { told, cursor } = await since(first);
        const came = ['called otherwise.txt', 'edited.txt', 'new/deep/new.txt'].map((name) => `watched/${name}`);
        expect(present(told)).deep.equal(came);
        expect([isGone(told, removed), isGone(told, left)]).deep.equal([true, true]);

        tree.restore(bin);
        tree.move('outside/moved.txt', 'watched/below');
        const later = await since(cursor);
        expect(present(later.told)).deep.equal(['watched/below/moved.txt', 'watched/removed.txt']);
        expect((await since(later.cursor)).told).deep.equal([]);
        expect(present((await since(first)).told)).include('watched/removed.txt');
      });

      it('reports deleted and renamed folders, page by page', async () => {
        fake.tree.add('folders/old/a.txt');
        fake.tree.add('folders/away/b.txt');
        const [old, away] = [await find('folders/old'), await find('folders/away')];
        const cursor = await begin('folders');
        fake.tree.rename('folders/old', 'other');
        fake.tree.remove('folders/away');
        for (let index = 0; index < 7; index += 1) fake.tree.add(`folders/new/${index}.txt`);
        fake.pageSize(3);
        const { told } = await since(cursor);
        fake.pageSize(1_000);
        expect(new Set(present(told).filter((path) => path.startsWith('folders/new/'))).size).equal(7);
        expect(isGone(told, away)).equal(true);
        const renamed = told.flatMap((change) => (change.kind === 'present' ? change.file : []));
        expect(renamed.find(({ fileId }) => fileId === old.fileId)).include({ path: 'folders/other', isFolder: true });
      });

      it('throws cursor_expired for a cursor that the provider no longer accepts', async () => {
        const cursor = await begin('');
        fake.forgetChanges();
        expect(await appErrorCode(since(cursor))).equal('cursor_expired');
        expect((await since(await begin(''))).told).deep.equal([]);
        expect(await appErrorCode(begin('no/where'))).equal('remote_file_not_found');
      });
    });
  });
}

function required<Value>(value: Value | null): Value {
  if (value === null) throw new Error('the connector lists no changes');
  return value;
}
