import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { createDriveConnector } from '#src/adapters/connectors/drive-connector.ts';
import { createDropboxConnector } from '#src/adapters/connectors/dropbox-connector.ts';
import { createGraphConnector } from '#src/adapters/connectors/graph-connector.ts';
import type { ConnectorDeps } from '#src/adapters/connectors/provider-api.ts';
import { createGuardedAgent } from '#src/adapters/web/guarded-agent.ts';
import { createProviderHttpClient } from '#src/adapters/web/provider-caller.ts';
import { type OAuthConnectorProvider, oauthConnectorProviders } from '#src/domain/documents/connector-providers.ts';
import type { Connector, OAuthConnectorAccess, RemoteChange, RemoteFile } from '#src/ports/connectors.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { shortcutType, startFakeDrive } from '#test/support/fake-drive.ts';
import { paperType, startFakeDropbox } from '#test/support/fake-dropbox.ts';
import { fakeSiteId, startFakeGraph } from '#test/support/fake-graph.ts';
import { startProviderServer } from '#test/support/provider-server.ts';
import type { FakeFiles } from '#test/support/remote-tree.ts';
import { itKeepsTheConnectorContract, listAll, unheeded } from './connectors.contract.ts';

const ofGraph = (provider: 'acme_onedrive' | 'acme_sharepoint') => (deps: ConnectorDeps) =>
  createGraphConnector({ ...deps, provider });
const connectors = {
  acme_drive: [startFakeDrive, createDriveConnector],
  acme_onedrive: [startFakeGraph, ofGraph('acme_onedrive')],
  acme_sharepoint: [startFakeGraph, ofGraph('acme_sharepoint')],
  acme_dropbox: [startFakeDropbox, createDropboxConnector],
} as const;

type Opened = Awaited<ReturnType<typeof open>>;

/** A connector and the fake provider that it calls. */
async function open(provider: OAuthConnectorProvider) {
  const [startFake, create] = connectors[provider];
  const fake = await startFake();
  const agent = createGuardedAgent({ allow: fake.place.split(',') });
  const call = createProviderHttpClient({ agent });
  const siteId = provider === 'acme_sharepoint' ? fakeSiteId : null;
  return {
    fake,
    connector: create({ agent, call, baseUrl: fake.baseUrl }),
    newAccess: (): OAuthConnectorAccess => ({ kind: 'oauth', accessToken: fake.token(), siteId }),
    close: async () => {
      await agent.close();
      await fake.close();
    },
  };
}

for (const provider of oauthConnectorProviders) {
  describe(`the connector of the provider ${provider}`, () => {
    let fake: FakeFiles;
    let connector: Connector;
    let opened: Opened;
    let access: OAuthConnectorAccess;
    before(async () => {
      opened = await open(provider);
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

    it('throws the error code that fits an error response, with its Retry-After', async () => {
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

    describe('when listing the changes of a drive', () => {
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

      it('reports deleted folders as gone and renamed folders with the new path, across several pages', async () => {
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

describe('the file connector', () => {
  let opened: Opened;
  const openOnce = async (provider: OAuthConnectorProvider) => {
    opened = await open(provider);
    return opened;
  };
  afterEach(() => opened.close());
  const find = (path: string) => opened.connector.find(opened.newAccess(), { path });
  const list = async (path: string) => (await opened.connector.list(opened.newAccess(), { path }, null)).files;
  const download = (file: RemoteFile) => opened.connector.download(opened.newAccess(), file, unheeded);
  const doc = 'application/vnd.google-apps.document';

  describe('of Drive', () => {
    const docx = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';

    it('exports Google documents with the file extension of the export format, or reports why it cannot', async () => {
      const { fake } = await openOnce('acme_drive');
      fake.tree.add('Plan', 'the plan', doc);
      const file = await find('Plan');
      expect(file).include({ mimeType: doc, sizeBytes: null });
      const answer = await download(file);
      expect(answer).include({ fileName: 'Plan.docx', mediaType: docx, revision: file.revision });
      expect(await text(answer.content)).equal('the plan');
      fake.tree.edit('Plan', 'another plan');
      expect((await find('Plan')).revision).not.equal(file.revision);
      fake.tree.add('Form', '', 'application/vnd.google-apps.form');
      fake.tree.add('Book', Buffer.alloc(10 * 1_024 * 1_024 + 1), doc);
      fake.tree.addFolder('folder');
      for (const [path, code] of [
        ['Form', 'unsupported_format'],
        ['Book', 'payload_too_large'],
        ['folder', 'unsupported_format'],
      ] as const) {
        expect(await appErrorCode(download(await find(path)))).equal(code);
      }
    });

    it('reads a shortcut as its target file, and does not follow shortcuts to folders', async () => {
      const { fake } = await openOnce('acme_drive');
      const target = fake.tree.add('far/away.txt', 'far');
      fake.tree.add('near/link.txt', target.id, shortcutType);
      fake.tree.add('near/circle', fake.tree.addFolder('near').id, shortcutType);
      fake.tree.add('near/dead', 'nothing', shortcutType);
      const files = await list('near');
      expect(files.map(({ isFolder }) => isFolder)).deep.equal([false, false, false]);
      const link = await find('near/link.txt');
      expect(files).deep.include(link);
      expect(link).include({ name: 'link.txt', path: 'near/link.txt', sizeBytes: 3 });
      const answer = await download(link);
      expect(answer).include({ fileName: 'link.txt', revision: (await find('far/away.txt')).revision });
      expect(await text(answer.content)).equal('far');
      for (const path of ['near/circle', 'near/dead']) {
        expect(await appErrorCode(download(await find(path)))).equal('unsupported_format');
      }
    });

    it('does not read a slash in a name as a path separator', async () => {
      const { fake, connector, newAccess } = await openOnce('acme_drive');
      fake.tree.addFolder('minutes');
      fake.tree.add('minutes/draft');
      fake.tree.rename('minutes/draft', '1/2 done');
      expect(await list('minutes')).deep.include(
        await connector.find(newAccess(), { name: '1/2 done', folder: 'minutes' }),
      );
      const [file] = await list('minutes');
      expect(file).include({ name: '1/2 done', path: 'minutes/1_2 done' });
    });

    it('finds the newest of several files with one name, and never takes a file for a folder of a path', async () => {
      const { fake } = await openOnce('acme_drive');
      fake.tree.add('twice/a', 'old');
      fake.tree.add('twice/a', 'new');
      fake.tree.add('twice/b/c.txt', 'below');
      fake.tree.add('twice/b', 'a file');
      const answer = await download(await find('twice/a'));
      expect(await text(answer.content)).equal('new');
      expect(await find('twice/b/c.txt')).include({ path: 'twice/b/c.txt' });
    });

    it('distinguishes a rate limit, a missing permission and a rejected request', async () => {
      const { fake } = await openOnce('acme_drive');
      for (const [reason, code] of [
        ['userRateLimitExceeded', 'provider_throttled'],
        ['rateLimitExceeded', 'provider_throttled'],
        ['sharingRateLimitExceeded', 'provider_throttled'],
        ['insufficientPermissions', 'not_granted'],
        ['cannotDownloadFile', 'provider_rejected'],
      ] as const) {
        fake.failNext(1, { status: 403, json: { error: { code: 403, errors: [{ domain: 'global', reason }] } } });
        expect(await appErrorCode(list('')), reason).equal(code);
      }
    });

    it('reads the changes of a shared drive, and reports a permanently deleted file as gone', async () => {
      const { fake, connector, newAccess } = await openOnce('acme_drive');
      const { id, name } = fake.tree.addFolder('ours');
      fake.failNext(1, { status: 200, json: { id, name, driveId: 'drive-1', mimeType: 'x' } });
      const cursor = (await connector.changes?.begin(newAccess(), { fileId: id, path: 'ours' })) ?? '';
      const gone = { changeType: 'file', removed: true, fileId: 'f-1' };
      const json = { newStartPageToken: '1.9', changes: [gone, { changeType: 'drive', driveId: 'd' }] };
      fake.failNext(1, { status: 200, json });
      const answer = await connector.changes?.since(newAccess(), cursor);
      expect(answer?.changes).deep.equal([{ kind: 'gone', fileId: 'f-1' }]);
      expect(fake.calls.slice(-2).map(({ url }) => url.searchParams.get('driveId'))).deep.equal(['drive-1', 'drive-1']);
    });
  });

  describe('of Microsoft Graph', () => {
    it('sends no token to download hosts, and follows no page or change links to other hosts', async () => {
      const { fake, connector, newAccess } = await openOnce('acme_onedrive');
      fake.tree.add('one.txt', 'one');
      const stranger = await startProviderServer(() => ({ status: 200, json: { value: [] } }));
      try {
        const reading = await download(await find('one.txt'));
        // The fake download host refuses requests with a token.
        expect(await text(reading.content)).equal('one');
        const page = `${stranger.baseUrl}/v1.0/me/drive/root/children`;
        const listed = connector.list(newAccess(), { path: '' }, page);
        expect(await appErrorCode(listed)).equal('provider_rejected');
        expect(await appErrorCode(connector.list(newAccess(), { path: '' }, 'no link'))).equal('provider_rejected');
        const cursor = JSON.stringify({ position: page, folderId: 'f', path: '' });
        expect(await appErrorCode(connector.changes?.since(newAccess(), cursor) ?? list(''))).equal(
          'provider_rejected',
        );
        expect(stranger.calls).deep.equal([]);
      } finally {
        await stranger.close();
      }
    });

    it('gets a file without a download URL by a redirect, and reports a refused download as an outage', async () => {
      const { fake } = await openOnce('acme_onedrive');
      fake.tree.add('one.txt', 'one');
      const file = await find('one.txt');
      const item = { id: file.fileId, name: 'one.txt', cTag: 'c-1', file: {} };
      fake.failNext(1, { status: 200, json: item });
      const answer = await download(file);
      expect(answer.revision).equal('c-1');
      expect(await text(answer.content)).equal('one');
      expect(fake.calls.at(-1)?.url.pathname).match(/\/content$/);
      const old = `http://${fake.place.split(',')[1]}/x?tempauth=old`;
      fake.failNext(1, { status: 200, json: { ...item, '@microsoft.graph.downloadUrl': old } });
      expect(await appErrorCode(download(file))).equal('provider_unavailable');
    });

    it('rejects an unknown site, and rejects notebooks as unsupported', async () => {
      const { fake, connector } = await openOnce('acme_sharepoint');
      const elsewhere = { kind: 'oauth' as const, accessToken: fake.token(), siteId: 'other.example,1,2' };
      expect(await appErrorCode(connector.check(elsewhere))).equal('remote_file_not_found');
      expect(await appErrorCode(connector.check({ ...elsewhere, siteId: null }))).equal('remote_file_not_found');
      fake.tree.add('book', '');
      const file = await find('book');
      fake.failNext(1, { status: 200, json: { id: file.fileId, name: 'book', package: { type: 'oneNote' } } });
      expect(await appErrorCode(download(file))).equal('unsupported_format');
    });
  });

  describe('of Dropbox', () => {
    it('exports files that cannot be downloaded directly', async () => {
      const { fake } = await openOnce('acme_dropbox');
      fake.tree.add('Notes ü.paper', '<p>notes</p>', paperType);
      const file = await find('Notes ü.paper');
      const answer = await download(file);
      expect(answer).include({ fileName: 'Notes ü.html', revision: file.revision });
      expect(await text(answer.content)).equal('<p>notes</p>');
      fake.tree.addFolder('folder');
      expect(await appErrorCode(download(await find('folder')))).equal('remote_file_not_found');
    });

    it('distinguishes a scope that was not granted from a revoked token', async () => {
      const { fake, connector, newAccess } = await openOnce('acme_dropbox');
      const weak = { ...newAccess(), accessToken: fake.accessToken(['account_info.read']) };
      expect(await appErrorCode(connector.list(weak, { path: '' }, null))).equal('not_granted');
      const access = newAccess();
      await connector.revoke?.(access);
      expect(await appErrorCode(connector.check(access))).equal('needs_reauth');
    });

    it('reports the contents of a renamed folder at the new path, and the old path as gone', async () => {
      const { fake, connector, newAccess } = await openOnce('acme_dropbox');
      fake.tree.add('old/deep/a.txt');
      const before = await find('old/deep/a.txt');
      const cursor = (await connector.changes?.begin(newAccess(), { path: '' })) ?? '';
      fake.tree.rename('old', 'new');
      const { changes = [] } = (await connector.changes?.since(newAccess(), cursor)) ?? {};
      expect(changes).deep.include({ kind: 'gone-path', path: 'old' });
      expect(changes).deep.include({ kind: 'present', file: { ...before, path: 'new/deep/a.txt' } });
    });
  });
});

function required<Value>(value: Value | null): Value {
  if (value === null) throw new Error('the connector lists no changes');
  return value;
}
