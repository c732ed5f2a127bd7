import { buffer, text } from 'node:stream/consumers';
import { expect } from 'chai';
import type { Connector, ConnectorAccess, RemoteFile, RemoteFolder } from '#src/ports/connectors.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

/** A connector, and a way to write files at its provider. */
export type ConnectorCase = {
  connector: Connector;
  access(): ConnectorAccess;
  /** Writes a file, with the folders above it. */
  put(path: string, content: string | Buffer): Promise<void>;
  /** Sets the maximum page size from now on. Absent if the provider cannot set it. */
  pageSize?(entries: number): void;
};

export const unheeded = { limitBytes: 1_000_000, signal: new AbortController().signal };

/** Lists every page of a folder. */
export async function listAll({ connector, access }: ConnectorCase, folder: RemoteFolder): Promise<RemoteFile[]> {
  const files: RemoteFile[] = [];
  let page: string | null = null;
  do {
    const answer = await connector.list(access(), folder, page);
    files.push(...answer.files);
    page = answer.nextPage;
  } while (page !== null);
  return files;
}

/** Tests the behaviour that all connectors share. */
export function itKeepsTheConnectorContract(open: () => ConnectorCase): void {
  const list = (path: string) => listAll(open(), { path });
  const find = (wanted: Parameters<Connector['find']>[1]) => open().connector.find(open().access(), wanted);
  const download = (file: RemoteFile, options = unheeded) => open().connector.download(open().access(), file, options);
  const pathsIn = async (path: string) => (await list(path)).map((file) => file.path).sort();

  it('returns the account of the connection', async () => {
    const account = await open().connector.check(open().access());
    expect(account.accountId).not.equal('');
    expect(account.accountName).not.equal('');
    expect(await open().connector.check(open().access())).deep.equal(account);
  });

  it('lists the direct children of a folder, by its path and by its id', async () => {
    await open().put('list/a.txt', 'a');
    await open().put('list/b/c/d.txt', 'd');
    const files = await list('list');
    expect(files.map(({ path, isFolder }) => [path, isFolder])).deep.members([
      ['list/a.txt', false],
      ['list/b', true],
    ]);
    const [folder] = files.filter(({ isFolder }) => isFolder);
    expect(folder).include({ name: 'b', mimeType: 'application/x-directory', sizeBytes: null });
    expect(files.find(({ isFolder }) => !isFolder)).include({ name: 'a.txt', sizeBytes: 1 });
    const below = await listAll(open(), { fileId: folder?.fileId ?? '', path: 'list/b' });
    expect(below.map(({ path }) => path)).deep.equal(['list/b/c']);
    expect((await list('')).map(({ path }) => path)).include('list');
  });

  it('lists a folder page by page without duplicates', async () => {
    const names = Array.from({ length: 7 }, (_, index) => `pages/${index}.txt`);
    for (const name of names) await open().put(name, name);
    open().pageSize?.(3);
    try {
      expect(await pathsIn('pages')).deep.equal(names);
    } finally {
      open().pageSize?.(1_000);
    }
  });

  it('finds a file by its id, by its path, and by its name and folder, at any depth and with special characters', async () => {
    const deep = Array.from({ length: 12 }, (_, index) => `level ${index}`).join('/');
    const paths = ["names/it's 100% ü & 日本 #1 (a+b).txt", 'names/emoji 🌍.txt', `${deep}/down.txt`];
    for (const path of paths) {
      await open().put(path, path);
      const byPath = await find({ path });
      const slash = path.lastIndexOf('/');
      expect(byPath).include({ path, name: path.slice(slash + 1), isFolder: false });
      expect(await find({ fileId: byPath.fileId })).deep.equal(byPath);
      expect(await find({ name: path.slice(slash + 1), folder: path.slice(0, slash) })).deep.equal(byPath);
      expect((await list(path.slice(0, slash))).find(({ fileId }) => fileId === byPath.fileId)).deep.equal(byPath);
      expect(await text((await download(byPath)).content)).equal(path);
    }
    expect(await find({ path: deep })).include({ path: deep, isFolder: true });
    expect(await find({ path: '' })).include({ path: '', isFolder: true });
  });

  it('throws remote_file_not_found for missing files and folders', async () => {
    const missing = [{ path: 'nowhere.txt' }, { path: 'no/where.txt' }, { name: 'nothing', folder: 'nowhere' }];
    for (const wanted of missing) expect(await appErrorCode(find(wanted))).equal('remote_file_not_found');
    await open().put('gone/soon.txt', 'x');
    const file = await find({ path: 'gone/soon.txt' });
    const elsewhere = { ...file, fileId: `${file.fileId.slice(0, -3)}zzz` };
    expect(await appErrorCode(find({ fileId: elsewhere.fileId }))).equal('remote_file_not_found');
    expect(await appErrorCode(download(elsewhere))).equal('remote_file_not_found');
    expect(await appErrorCode(list('no/where'))).equal('remote_file_not_found');
    expect(await appErrorCode(find({ fileId: '..' }))).equal('remote_file_not_found');
  });

  it('downloads the exact bytes of a file with its revision', async () => {
    const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, index) => index % 256));
    await open().put('bytes/all.bin', bytes);
    const file = await find({ path: 'bytes/all.bin' });
    expect(file.sizeBytes).equal(bytes.length);
    const first = await download(file);
    expect(first).include({ fileName: 'all.bin', revision: file.revision });
    expect((await buffer(first.content)).equals(bytes)).equal(true);

    await open().put('bytes/all.bin', 'changed since it was listed');
    const second = await download(file);
    expect(second.revision).not.equal(file.revision);
    expect(second.revision).equal((await find({ path: 'bytes/all.bin' })).revision);
    expect(await text(second.content)).equal('changed since it was listed');
  });

  it('refuses a download above the size limit', async () => {
    await open().put('limit/exact.bin', Buffer.alloc(1_000));
    await open().put('limit/over.bin', Buffer.alloc(1_001));
    const options = { ...unheeded, limitBytes: 1_000 };
    const fits = await download(await find({ path: 'limit/exact.bin' }), options);
    expect((await buffer(fits.content)).length).equal(1_000);
    const over = await find({ path: 'limit/over.bin' });
    const reading = download(over, options).then(({ content }) => buffer(content));
    expect(await appErrorCode(reading)).equal('payload_too_large');
  });

  it('stops a download when its signal is aborted', async () => {
    await open().put('abort/large.bin', Buffer.alloc(20_000_000));
    const file = await find({ path: 'abort/large.bin' });
    const stop = new AbortController();
    const { content } = await download(file, { limitBytes: 30_000_000, signal: stop.signal });
    content.once('data', () => stop.abort(new Error('enough')));
    const ended = await buffer(content).then(
      () => 'read',
      () => 'stopped',
    );
    expect(ended).equal('stopped');
    const late = download(file, { limitBytes: 30_000_000, signal: AbortSignal.abort(new Error('too late')) });
    expect(await late.catch(({ message }: Error) => message)).equal('too late');
  });
}
