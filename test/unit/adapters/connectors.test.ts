import { expect } from 'chai';
import { oauthConnectorProviders } from '#src/domain/documents/connector-providers.ts';
import type { Connector, OAuthConnectorAccess, RemoteChange } from '#src/ports/connectors.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  type ConnectorCase,
  itKeepsTheConnectorContract,
  listAll,
  unheeded,
} from '#test/support/connector-contract.ts';
import type { FakeFiles } from '#test/support/fake-drive.ts';
import { type OpenedConnector, openConnector } from '#test/support/opened-connector.ts';

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

    const theCase = (): ConnectorCase => ({
      connector,
      access: () => access,
      put: async (path, content) => {
        if (fake.tree.at(path) === undefined) fake.tree.add(path, content);
        else fake.tree.edit(path, content);
      },
      pageSize: fake.pageSize,
    });
    const find = (path: string) => connector.find(access, { path });

    itKeepsTheConnectorContract(theCase);

    it('lists ten thousand files in a folder', async () => {
      for (let index = 0; index < 10_000; index += 1) fake.tree.add(`many/${index}.txt`, 'x');
      const before = fake.calls.length;
      const files = await listAll(theCase(), { path: 'many' });
      expect(new Set(files.map(({ fileId }) => fileId)).size).equal(10_000);
      expect(fake.calls.length - before).within(2, 60);
      fake.tree.remove('many');
    });

    it('keeps the id and revision of a renamed or moved file', async () => {
      fake.tree.add('kept/one.txt');
      const file = await find('kept/one.txt');
      fake.tree.rename('kept/one.txt', 'two.txt');
      fake.tree.addFolder('kept/below');
      fake.tree.move('kept/two.txt', 'kept/below');
      const moved = await find('kept/below/two.txt');
      expect(moved).deep.equal({ ...file, name: 'two.txt', path: 'kept/below/two.txt' });
    });

    it('maps error responses to error codes', async () => {
      fake.tree.add('refused/file.txt');
      const file = await find('refused/file.txt');
      const codeOf = async (
        reply: Parameters<FakeFiles['failNext']>[1],
        work: () => Promise<unknown> = () => find('refused/file.txt'),
      ) => {
        fake.failNext(1, reply);
        return appErrorCode(work());
      };
      expect(await codeOf({ status: 401, json: {} })).equal('needs_reauth');
      expect(await codeOf({ status: 404, json: {} })).equal('remote_file_not_found');
      expect(await codeOf({ status: 400, text: 'Error in call' })).equal('provider_rejected');
      expect(await codeOf({ status: 429 })).equal('provider_throttled');
      expect(await codeOf({ status: 503 })).equal('provider_throttled');
      expect(await codeOf({ status: 500, text: '<html>' })).equal('provider_unavailable');
      expect(await codeOf({ status: 200, text: '<html>' })).equal('provider_unavailable');
      const download = () => connector.download(access, file, unheeded);
      expect(await codeOf({ status: 429 }, download)).equal('provider_throttled');
      expect(await codeOf({ status: 500 }, download)).equal('provider_unavailable');
      expect(await codeOf({ status: 401 }, download)).equal('needs_reauth');
    });

    it('passes on Retry-After, in seconds or as a date', async () => {
      const pauseOf = async (after: string) => {
        fake.failNext(1, { status: 429, headers: { 'retry-after': after } });
        return connector.check(access).catch((error) => error.retryAfterSeconds);
      };
      expect(await pauseOf('7')).equal(7);
      expect(await pauseOf(new Date(Date.now() + 60_000).toUTCString())).within(50, 61);
      expect(await pauseOf(new Date(0).toUTCString())).equal(1);
      expect(await pauseOf('86400')).equal(3_600);
      expect(await pauseOf('soon')).equal(undefined);
    });

    it('throws needs_reauth for expired or revoked tokens, and quotes no token', async () => {
      fake.tree.add('token/file.txt');
      const file = await find('token/file.txt');
      for (const end of [fake.expireTokens, fake.revokeGrants]) {
        access = opened.newAccess();
        end();
        const failures = [
          connector.check(access),
          connector.list(access, { path: '' }, null),
          connector.download(access, file, unheeded),
        ];
        for (const failure of failures) expect(await appErrorCode(failure)).equal('needs_reauth');
      }
      access = opened.newAccess();
      fake.failNext(1, {
        status: 418,
        json: { error: { code: access.accessToken }, error_summary: access.accessToken },
      });
      const error = await find('token/file.txt').catch((reason: Error) => reason);
      expect(JSON.stringify(error) + String(error)).not.include(access.accessToken);
    });

    describe('listing changes', () => {
      /** All pages since the cursor: what a mirror of the folder would hold, and how many were told. */
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
        told.flatMap((change) => (change.kind === 'present' && !change.file.isFolder ? [change.file.path] : []));
      const isGone = (told: RemoteChange[], { fileId, path }: { fileId: string; path: string }) =>
        told.some((change) =>
          change.kind === 'gone' ? change.fileId === fileId : change.kind === 'gone-path' && change.path === path,
        );

      it('reports each added, edited, renamed, moved, deleted and restored file once', async () => {
        for (const name of ['edited', 'renamed', 'moved', 'removed', 'untouched']) fake.tree.add(`watched/${name}.txt`);
        fake.tree.addFolder('watched/below');
        fake.tree.addFolder('outside');
        const removed = await find('watched/removed.txt');
        const left = await find('watched/moved.txt');
        const first = await begin('watched');
        expect(await since(first)).deep.include({ told: [] });

        fake.tree.add('watched/new/deep/new.txt');
        fake.tree.add('outside/new.txt');
        fake.tree.edit('watched/edited.txt', 'edited');
        fake.tree.rename('watched/renamed.txt', 'called otherwise.txt');
        fake.tree.move('watched/moved.txt', 'outside');
        const bin = fake.tree.remove('watched/removed.txt');
        const { told, cursor } = await since(first);
        expect(present(told).sort()).deep.equal([
          'watched/called otherwise.txt',
          'watched/edited.txt',
          'watched/new/deep/new.txt',
        ]);
        expect(isGone(told, removed)).equal(true);
        expect(isGone(told, left)).equal(true);

        fake.tree.restore(bin);
        fake.tree.move('outside/moved.txt', 'watched/below');
        const later = await since(cursor);
        expect(present(later.told).sort()).deep.equal(['watched/below/moved.txt', 'watched/removed.txt']);
        expect((await since(later.cursor)).told).deep.equal([]);
        expect(present((await since(first)).told)).include('watched/removed.txt');
      });

      it('continues at the next page', async () => {
        const cursor = await begin('');
        for (let index = 0; index < 7; index += 1) fake.tree.add(`in pages/${index}.txt`);
        fake.pageSize(3);
        try {
          const { told } = await since(cursor);
          expect(new Set(present(told)).size).equal(7);
        } finally {
          fake.pageSize(1_000);
        }
      });

      it('reports deleted and renamed folders', async () => {
        fake.tree.add('folders/old/a.txt');
        fake.tree.add('folders/away/b.txt');
        const [old, away] = [await find('folders/old'), await find('folders/away')];
        const cursor = await begin('folders');
        fake.tree.rename('folders/old', 'other');
        fake.tree.remove('folders/away');
        const { told } = await since(cursor);
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
