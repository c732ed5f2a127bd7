import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import type { OAuthConnectorProvider } from '#src/domain/documents/connector-providers.ts';
import type { RemoteFile } from '#src/ports/connectors.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { shortcutType } from '#test/support/fake-drive.ts';
import { paperType } from '#test/support/fake-dropbox.ts';
import { type OpenedConnector, openConnector } from '#test/support/opened-connector.ts';
import { startProviderServer } from '#test/support/provider-server.ts';
import { unheeded } from '#test/unit/adapters/connectors.contract.ts';

describe('the file connector', () => {
  let opened: OpenedConnector;
  const open = async (provider: OAuthConnectorProvider) => {
    opened = await openConnector(provider);
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
      const { fake } = await open('acme_drive');
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
      const { fake } = await open('acme_drive');
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
      const { fake, connector, newAccess } = await open('acme_drive');
      fake.tree.addFolder('minutes');
      fake.tree.add('minutes/draft');
      fake.tree.rename('minutes/draft', '1/2 done');
      expect(await list('minutes')).deep.include(
        await connector.find(newAccess(), { name: '1/2 done', folder: 'minutes' }),
      );
      const [file] = await list('minutes');
      expect(file).include({ name: '1/2 done', path: 'minutes/1_2 done' });
    });

    it('finds the newest of files with equal names, and ignores files where the path needs a folder', async () => {
      const { fake } = await open('acme_drive');
      fake.tree.add('twice/a', 'old');
      fake.tree.add('twice/a', 'new');
      fake.tree.add('twice/b/c.txt', 'below');
      fake.tree.add('twice/b', 'a file');
      const answer = await download(await find('twice/a'));
      expect(await text(answer.content)).equal('new');
      expect(await find('twice/b/c.txt')).include({ path: 'twice/b/c.txt' });
    });

    it('distinguishes a rate limit, a missing permission and a rejected request', async () => {
      const { fake } = await open('acme_drive');
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
      const { fake, connector, newAccess } = await open('acme_drive');
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
      const { fake, connector, newAccess } = await open('acme_onedrive');
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

    it('follows the redirect of an item without a download URL; a refused download keeps the grant', async () => {
      const { fake } = await open('acme_onedrive');
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
      const { fake, connector } = await open('acme_sharepoint');
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
      const { fake } = await open('acme_dropbox');
      fake.tree.add('Notes ü.paper', '<p>notes</p>', paperType);
      const file = await find('Notes ü.paper');
      const answer = await download(file);
      expect(answer).include({ fileName: 'Notes ü.html', revision: file.revision });
      expect(await text(answer.content)).equal('<p>notes</p>');
      fake.tree.addFolder('folder');
      expect(await appErrorCode(download(await find('folder')))).equal('remote_file_not_found');
    });

    it('distinguishes a scope that was not granted from a revoked token', async () => {
      const { fake, connector, newAccess } = await open('acme_dropbox');
      const weak = { ...newAccess(), accessToken: fake.accessToken(['account_info.read']) };
      expect(await appErrorCode(connector.list(weak, { path: '' }, null))).equal('not_granted');
      const access = newAccess();
      await connector.revoke?.(access);
      expect(await appErrorCode(connector.check(access))).equal('needs_reauth');
    });

    it('reports a renamed folder as its contents at the new path and its old path as gone', async () => {
      const { fake, connector, newAccess } = await open('acme_dropbox');
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
