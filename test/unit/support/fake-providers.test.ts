import { text } from 'node:stream/consumers';
import { drive as createDrive } from '@googleapis/drive';
import { expect } from 'chai';
import { Dropbox, DropboxResponseError } from 'dropbox';
import { type FakeFiles, shortcutType, startFakeDrive } from '#test/support/fake-drive.ts';
import { startFakeDropbox } from '#test/support/fake-dropbox.ts';

// What the providers' own clients understand is their protocol, and no idea of ours.
describe('the fake Drive, called by the client of Google', () => {
  let fake: FakeFiles;
  before(async () => {
    fake = await startFakeDrive();
  });
  after(() => fake.close());

  const client = (token = fake.token()) =>
    createDrive({
      version: 'v3',
      rootUrl: `${fake.baseUrl}/`,
      headers: { authorization: `Bearer ${token}` },
      retry: false,
    });

  it('lists pages with the requested fields, and finds a file by its name', async () => {
    for (let index = 0; index < 5; index += 1) fake.tree.add(`folder/${index}.txt`, 'x');
    const folderId = fake.tree.at('folder')?.id;
    const q = `'${folderId}' in parents and trashed = false`;
    const first = await client().files.list({ q, pageSize: 3, fields: 'nextPageToken,files(id,name,size)' });
    expect(first.data.files?.map(({ name }) => name)).deep.equal(['0.txt', '1.txt', '2.txt']);
    expect(Object.keys(first.data.files?.[0] ?? {}).sort()).deep.equal(['id', 'name', 'size']);
    const pageToken = first.data.nextPageToken ?? '';
    const { data } = await client().files.list({ q, pageSize: 3, pageToken, fields: 'nextPageToken,files' });
    expect(data.files?.map(({ name, parents }) => [name, parents])).deep.equal([
      ['3.txt', [folderId]],
      ['4.txt', [folderId]],
    ]);
    expect(data.nextPageToken).equal(undefined);
    const about = await client().about.get({ fields: 'user(permissionId,emailAddress)' });
    expect(about.data.user).deep.equal({ permissionId: 'account-1', emailAddress: 'account-1@example.com' });
  });

  it('downloads files, exports documents and returns shortcuts', async () => {
    const file = fake.tree.add('one.txt', 'ü');
    const doc = fake.tree.add('doc', 'text', 'application/vnd.google-apps.document');
    const link = fake.tree.add('link', file.id, shortcutType);
    const media = await client().files.get({ fileId: file.id, alt: 'media' }, { responseType: 'stream' });
    expect(await text(media.data)).equal('ü');
    const docx = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';
    const exported = await client().files.export({ fileId: doc.id, mimeType: docx }, { responseType: 'stream' });
    expect(await text(exported.data)).equal('text');
    const { data } = await client().files.get({ fileId: link.id, fields: 'mimeType,shortcutDetails' });
    expect(data).deep.equal({
      mimeType: shortcutType,
      shortcutDetails: { targetId: file.id, targetMimeType: 'application/octet-stream' },
    });
  });

  it('lists changes, including files in the bin', async () => {
    const { data: start } = await client().changes.getStartPageToken();
    fake.tree.add('changed.txt');
    fake.tree.remove('changed.txt');
    const { data } = await client().changes.list({ pageToken: start.startPageToken ?? '', fields: '*' });
    expect(data.changes?.map(({ removed, file }) => [removed, file?.trashed])).deep.equal([[false, true]]);
    const later = await client().changes.list({ pageToken: data.newStartPageToken ?? '' });
    expect(later.data.changes).deep.equal([]);
  });

  it('returns the errors that Google returns', async () => {
    const reasonOf = async (work: Promise<unknown>) => {
      const error = await work.then(
        () => null,
        (reason: unknown) => Object(reason),
      );
      return [error?.status, error?.response?.data?.error?.errors?.[0]?.reason];
    };
    expect(await reasonOf(client('nobody').files.list({}))).deep.equal([401, 'authError']);
    expect(await reasonOf(client().files.get({ fileId: 'nothing' }))).deep.equal([404, 'notFound']);
    expect(await reasonOf(client().files.list({ q: 'nonsense' }))).deep.equal([400, 'invalid']);
    expect(await reasonOf(client().changes.list({ pageToken: 'nonsense' }))).deep.equal([400, 'invalid']);
    const weak = fake.accessToken(['https://www.googleapis.com/auth/drive.file']);
    expect(await reasonOf(client(weak).files.list({}))).deep.equal([403, 'insufficientPermissions']);
  });
});

describe('the fake Dropbox, called by the client of Dropbox', () => {
  let fake: FakeFiles;
  before(async () => {
    fake = await startFakeDropbox();
  });
  after(() => fake.close());

  const client = (accessToken = fake.token()) =>
    new Dropbox({
      accessToken,
      // Every host of Dropbox is the fake.
      fetch: (url: string, init: RequestInit) => fetch(url.replace(/^https:\/\/[^/]+/, fake.baseUrl), init),
    });

  it('lists pages, and downloads files with their metadata', async () => {
    for (let index = 0; index < 5; index += 1) fake.tree.add(`ordner ü/${index}.txt`, `${index}`);
    const first = await client().filesListFolder({ path: '/ordner ü', limit: 3 });
    expect(first.result.entries.map(({ name }) => name)).deep.equal(['0.txt', '1.txt', '2.txt']);
    const { result } = await client().filesListFolderContinue({ cursor: first.result.cursor });
    expect([result.entries.length, result.has_more]).deep.equal([2, false]);
    const answer = await client().filesDownload({ path: '/Ordner Ü/4.txt' });
    expect(answer.result).include({ name: '4.txt', path_display: '/ordner ü/4.txt', size: 1 });
    const account = await client().usersGetCurrentAccount();
    expect(account.result).include({ account_id: 'dbid:account-1', email: 'account-1@example.com' });
  });

  it('lists changes after a cursor, and deleted files by their paths', async () => {
    fake.tree.add('watched/a.txt');
    const { result: start } = await client().filesListFolderGetLatestCursor({ path: '/watched', recursive: true });
    fake.tree.rename('watched/a.txt', 'b.txt');
    const { result } = await client().filesListFolderContinue({ cursor: start.cursor });
    const told = result.entries.map((entry) => [entry['.tag'], entry.path_display]);
    expect(told).deep.equal([
      ['deleted', '/watched/a.txt'],
      ['file', '/watched/b.txt'],
    ]);
  });

  it('returns the errors that Dropbox returns', async () => {
    const refusalOf = async (work: Promise<unknown>) => {
      const error = await work.catch((reason: unknown) => reason);
      if (!(error instanceof DropboxResponseError)) throw error;
      return [error.status, Object(error.error).error_summary?.split('/').slice(0, 2).join('/')];
    };
    expect(await refusalOf(client('nobody').filesListFolder({ path: '' }))).deep.equal([
      401,
      'expired_access_token/..',
    ]);
    expect(await refusalOf(client().filesGetMetadata({ path: '/nothing' }))).deep.equal([409, 'path/not_found']);
    expect(await refusalOf(client().filesListFolder({ path: 'no slash' }))).deep.equal([409, 'path/malformed_path']);
    expect(await refusalOf(client().filesGetMetadata({ path: '' }))).deep.equal([400, undefined]);
    const { cursor } = (await client().filesListFolderGetLatestCursor({ path: '', recursive: true })).result;
    fake.forgetChanges();
    expect(await refusalOf(client().filesListFolderContinue({ cursor }))).deep.equal([409, 'reset/..']);
    await client().authTokenRevoke();
  });
});
