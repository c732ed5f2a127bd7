import { text } from 'node:stream/consumers';
import { drive as createDrive } from '@googleapis/drive';
import { expect } from 'chai';
import { Dropbox, DropboxResponseError } from 'dropbox';
import { shortcutType, startFakeDrive } from '#test/support/fake-drive.ts';
import { startFakeDropbox } from '#test/support/fake-dropbox.ts';
import type { FakeFiles } from '#test/support/remote-tree.ts';

// The fakes speak the protocol if the providers' own clients understand them.
describe("the fake Google Drive, called by Google's client library,", () => {
  let fake: FakeFiles;
  before(async () => {
    fake = await startFakeDrive();
  });
  after(() => fake.close());

  const client = (token = fake.token()) => {
    const headers = { authorization: `Bearer ${token}` };
    return createDrive({ version: 'v3', rootUrl: `${fake.baseUrl}/`, headers, retry: false });
  };

  it('lists files in pages with the requested fields, and changes that include trashed files', async () => {
    const folderId = fake.tree.addFolder('folder').id;
    const { data: start } = await client().changes.getStartPageToken();
    for (let index = 0; index < 5; index += 1) fake.tree.add(`folder/${index}.txt`, 'x');
    const q = `'${folderId}' in parents and trashed = false`;
    const first = await client().files.list({ q, pageSize: 3, fields: 'nextPageToken,files(id,name,size)' });
    expect(first.data.files?.map(({ name }) => name)).deep.equal(['0.txt', '1.txt', '2.txt']);
    expect(Object.keys(first.data.files?.[0] ?? {}).sort()).deep.equal(['id', 'name', 'size']);
    const pageToken = first.data.nextPageToken ?? '';
    const { data } = await client().files.list({ q, pageSize: 3, pageToken, fields: 'nextPageToken,files' });
    expect(data.files?.map(({ name }) => name)).deep.equal(['3.txt', '4.txt']);
    expect([data.files?.[0]?.parents, data.nextPageToken]).deep.equal([[folderId], undefined]);
    for (const name of ['3.txt', '4.txt']) fake.tree.remove(`folder/${name}`);
    const changed = await client().changes.list({ pageToken: start.startPageToken ?? '', fields: '*' });
    expect(changed.data.changes?.map(({ file }) => file?.trashed)).deep.equal([false, false, false, true, true]);
    const later = await client().changes.list({ pageToken: changed.data.newStartPageToken ?? '' });
    expect(later.data.changes).deep.equal([]);
  });

  it('returns the account, file contents, exports and shortcuts', async () => {
    const about = await client().about.get({ fields: 'user(permissionId,emailAddress)' });
    expect(about.data.user).deep.equal({ permissionId: 'account-1', emailAddress: 'account-1@example.com' });
    const { id: fileId } = fake.tree.add('one.txt', 'ü');
    const doc = fake.tree.add('doc', 'text', 'application/vnd.google-apps.document');
    const link = fake.tree.add('link', fileId, shortcutType);
    const media = await client().files.get({ fileId, alt: 'media' }, { responseType: 'stream' });
    const mimeType = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';
    const exported = await client().files.export({ fileId: doc.id, mimeType }, { responseType: 'stream' });
    expect([await text(media.data), await text(exported.data)]).deep.equal(['ü', 'text']);
    const { data } = await client().files.get({ fileId: link.id, fields: 'shortcutDetails' });
    expect(data.shortcutDetails).deep.equal({ targetId: fileId, targetMimeType: 'application/octet-stream' });
  });

  it('returns the errors that Google returns', async () => {
    const weak = fake.accessToken(['https://www.googleapis.com/auth/drive.file']);
    for (const [call, status, reason] of [
      [() => client('unknown').files.list({}), 401, 'authError'],
      [() => client().files.get({ fileId: 'nothing' }), 404, 'notFound'],
      [() => client().files.list({ q: 'nonsense' }), 400, 'invalid'],
      [() => client().changes.list({ pageToken: 'nonsense' }), 400, 'invalid'],
      [() => client(weak).files.list({}), 403, 'insufficientPermissions'],
    ] as const) {
      const error = Object(await (call() as Promise<unknown>).catch((thrown: unknown) => thrown));
      expect([error.status, error.response?.data?.error?.errors?.[0]?.reason]).deep.equal([status, reason]);
    }
  });
});

describe("the fake Dropbox, called by Dropbox's client library,", () => {
  let fake: FakeFiles;
  before(async () => {
    fake = await startFakeDropbox();
  });
  after(() => fake.close());

  // Every host of Dropbox is the fake.
  const fetchFake = (url: string, init: RequestInit) => fetch(url.replace(/^https:\/\/[^/]+/, fake.baseUrl), init);
  const client = (accessToken = fake.token()) => new Dropbox({ accessToken, fetch: fetchFake });

  it('lists files in pages and changes, and returns file contents with their metadata', async () => {
    for (let index = 0; index < 5; index += 1) fake.tree.add(`ordner ü/${index}.txt`, `${index}`);
    const first = await client().filesListFolder({ path: '/ordner ü', limit: 3 });
    expect(first.result.entries.map(({ name }) => name)).deep.equal(['0.txt', '1.txt', '2.txt']);
    const { result } = await client().filesListFolderContinue({ cursor: first.result.cursor });
    expect([result.entries.length, result.has_more]).deep.equal([2, false]);
    const answer = await client().filesDownload({ path: '/Ordner Ü/4.txt' });
    expect(answer.result).include({ name: '4.txt', path_display: '/ordner ü/4.txt', size: 1 });
    const account = await client().usersGetCurrentAccount();
    expect(account.result).include({ account_id: 'dbid:account-1', email: 'account-1@example.com' });
    const start = await client().filesListFolderGetLatestCursor({ path: '/ordner ü', recursive: true });
    fake.tree.rename('ordner ü/0.txt', 'b.txt');
    const changed = await client().filesListFolderContinue({ cursor: start.result.cursor });
    const told = changed.result.entries.map((entry) => `${entry['.tag']} ${entry.path_display}`);
    expect(told).deep.equal(['deleted /ordner ü/0.txt', 'file /ordner ü/b.txt']);
  });

  it('returns the errors that Dropbox returns', async () => {
    const { cursor } = (await client().filesListFolderGetLatestCursor({ path: '', recursive: true })).result;
    fake.forgetChanges();
    for (const [call, status, summary] of [
      [() => client('unknown').filesListFolder({ path: '' }), 401, 'expired_access_token/..'],
      [() => client().filesGetMetadata({ path: '/nothing' }), 409, 'path/not_found/..'],
      [() => client().filesListFolder({ path: 'no slash' }), 409, 'path/malformed_path/..'],
      [() => client().filesGetMetadata({ path: '' }), 400, undefined],
      [() => client().filesListFolderContinue({ cursor }), 409, 'reset/..'],
    ] as const) {
      const error = await (call() as Promise<unknown>).catch((reason: unknown) => reason);
      if (!(error instanceof DropboxResponseError)) throw error;
      expect([error.status, Object(error.error).error_summary]).deep.equal([status, summary]);
    }
    await client().authTokenRevoke();
  });
});
