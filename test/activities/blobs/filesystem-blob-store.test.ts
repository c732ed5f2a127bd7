import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, readFile, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { expect } from 'chai';
import { createFilesystemBlobStore } from '#src/adapters/blob/filesystem-blob-store.ts';
import { AppError } from '#src/errors.ts';

describe('the filesystem blob store', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'blobs-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  const store = () => createFilesystemBlobStore({ directory });
  const put = (content: Readable, limitBytes = 1_000_000) => store().put({ key: 'org/one', content, limitBytes });
  const codeOf = (work: Promise<unknown>) =>
    work.then(
      () => 'no error',
      (error: unknown) => (error instanceof AppError ? error.code : String(error)),
    );
  const files = async () =>
    (await readdir(directory, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());

  it('gives back what was put, with its size and hash', async () => {
    const content = Buffer.alloc(200_000, 'abc');
    const stored = await put(Readable.from([content.subarray(0, 70_000), content.subarray(70_000)]));
    expect(stored).to.deep.equal({
      sizeBytes: 200_000,
      sha256: createHash('sha256').update(content).digest('hex'),
    });
    expect(content.equals(await buffer(await store().read('org/one')))).to.equal(true);
  });

  it('reads an inclusive range', async () => {
    await put(Readable.from([Buffer.from('0123456789')]));
    expect(await text(await store().read('org/one', { start: 2, end: 4 }))).to.equal('234');
  });

  it('leaves nothing of a file over the limit', async () => {
    expect(await codeOf(put(Readable.from([Buffer.alloc(11)]), 10))).to.equal('payload_too_large');
    expect(await files()).to.have.length(0);
    expect((await put(Readable.from([Buffer.alloc(10)]), 10)).sizeBytes).to.equal(10);
  });

  it('leaves nothing of a stream that breaks', async () => {
    const broken = Readable.from(
      (async function* () {
        yield Buffer.from('half');
        throw new Error('connection lost');
      })(),
    );
    expect(await codeOf(put(broken))).to.equal('Error: connection lost');
    expect(await files()).to.have.length(0);
  });

  it('lends a path on the disk', async () => {
    await put(Readable.from([Buffer.from('parse me')]));
    expect(await store().exists('org/one')).to.equal(true);
    expect(await store().withLocalFile('org/one', (path) => readFile(path, 'utf8'))).to.equal('parse me');
  });

  it('says so when there is nothing, and deletes nothing without complaint', async () => {
    await store().delete('org/none');
    expect(await store().exists('org/none')).to.equal(false);
    expect(await codeOf(store().read('org/none'))).to.equal('blob_missing');
    expect(await codeOf(store().withLocalFile('org/none', async () => {}))).to.equal('blob_missing');
  });

  it('keeps to its directory', async () => {
    for (const key of ['../outside', '/etc/passwd', 'org//x', 'org/..', '']) {
      expect(await codeOf(store().read(key))).to.match(/not a blob key/);
    }
  });

  it('lists its objects page by page, in one order', async () => {
    const keys = [
      'acme/five',
      'acme/four',
      'acme/one',
      'acme/three',
      'acme/two',
      'acme-2/one',
      'lone',
      'zoo/deep/one',
      'zoo/two',
    ];
    for (const key of keys) await store().put({ key, content: Readable.from([Buffer.from(key)]), limitBytes: 100 });
    await mkdir(join(directory, 'objects', 'empty'));

    const listed: string[] = [];
    for (let after: string | null = null; ; ) {
      const page = await store().list({ after, limit: 2 });
      for (const { key, sizeBytes, storedAt } of page) {
        expect(sizeBytes).to.equal(key.length);
        expect(Date.now() - storedAt.getTime()).to.be.within(-1_000, 60_000);
        listed.push(key);
      }
      after = page.at(-1)?.key ?? null;
      if (after === null) break;
    }
    expect(listed).to.have.members(keys).and.to.have.length(keys.length);
  });

  it('lists nothing before the first object', async () => {
    expect(await store().list({ after: null, limit: 10 })).to.deep.equal([]);
  });

  it('sweeps what a crash left of an upload, and nothing that may still be written', async () => {
    await store().deleteStrays();
    await put(Readable.from([Buffer.from('kept')]));
    const incoming = join(directory, 'incoming');
    await mkdir(incoming, { recursive: true });
    for (const name of ['stray', 'fresh']) await writeFile(join(incoming, name), 'half');
    const daysAgo = new Date(Date.now() - 2 * 24 * 60 * 60_000);
    await utimes(join(incoming, 'stray'), daysAgo, daysAgo);
    await utimes(join(directory, 'objects', 'org', 'one'), daysAgo, daysAgo);

    await store().deleteStrays();
    expect((await files()).map((file) => file.name).sort()).to.deep.equal(['fresh', 'one']);
  });
});
