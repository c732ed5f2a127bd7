import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { expect } from 'chai';
import type { BlobStore } from '#src/ports/blob-store.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { putBlob } from '#test/support/put-blob.ts';

/** Large enough for an upload in several parts. */
const LARGE_BYTES = 20 * 1024 ** 2 + 7;

/**
 * Tests that every blob store passes.
 * @param leftovers lists what a store holds beside its objects, such as parts of uploads
 */
export function itKeepsBlobs(open: () => Promise<{ store: BlobStore; leftovers(): Promise<string[]> }>): void {
  let store: BlobStore;
  let leftovers: () => Promise<string[]>;
  beforeEach(async () => {
    ({ store, leftovers } = await open());
  });

  const stage = (content: Readable, limitBytes = 100_000_000) => store.stage({ content, limitBytes });
  const staged = (content: string) => stage(Readable.from([Buffer.from(content)]));
  const contentOf = async (key: string) => text(await store.read(key));

  /** Yields pieces of the size that a socket gives; `end` runs after the last and may throw. */
  function stream(sizeBytes: number, end: () => void = () => undefined): Readable {
    const piece = Buffer.alloc(64 * 1024, 'abc');
    return Readable.from(
      (async function* () {
        for (let left = sizeBytes; left > 0; left -= piece.length) yield piece.subarray(0, left);
        end();
      })(),
    );
  }

  it('returns the stored content, with its size and hash', async () => {
    const hash = createHash('sha256');
    for await (const piece of stream(LARGE_BYTES)) hash.update(piece);
    const sha256 = hash.digest('hex');
    const { stagingKey, ...measured } = await stage(stream(LARGE_BYTES));
    expect(measured).deep.equal({ sizeBytes: LARGE_BYTES, sha256 });
    await store.promote(stagingKey, 'org/one');
    const content = await buffer(await store.read('org/one'));
    expect(createHash('sha256').update(content).digest('hex')).equal(sha256);
    expect(await leftovers()).deep.equal([]);
  });

  it('lists an object only after its upload was made final; making an upload final or discarding it twice is no error', async () => {
    const unwanted = await staged('unwanted');
    for (let times = 0; times < 2; times += 1) await store.unstage(unwanted.stagingKey);
    expect(await leftovers()).deep.equal([]);
    await putBlob(store, 'org/one', 'older');
    const [first, empty] = [await staged('newer'), await staged('')];
    await store.promote(first.stagingKey, 'org/one');
    expect((await store.list({ after: null, limit: 10 })).map(({ key }) => key)).deep.equal(['org/one']);
    for (let times = 0; times < 2; times += 1) await store.promote(empty.stagingKey, 'org/empty');
    expect(await contentOf('org/one')).equal('newer');
    expect(await contentOf('org/empty')).equal('');
    expect(await store.exists('org/empty')).equal(true);
  });

  it('returns a byte range or a local copy of an object, and still works after a reader stopped in the middle of one', async () => {
    await putBlob(store, 'org/one', '0123456789');
    expect(await text(await store.read('org/one', { start: 2, end: 4 }))).equal('234');
    expect(await text(await store.read('org/one', { start: 9, end: 9 }))).equal('9');
    expect(await store.withLocalFile('org/one', (path) => readFile(path, 'utf8'))).equal('0123456789');
    await putBlob(store, 'org/large', Buffer.alloc(LARGE_BYTES));
    for await (const piece of await store.read('org/large')) {
      expect(piece).not.length(0);
      break;
    }
    expect(await store.exists('org/large')).equal(true);
  });

  it('stores nothing of a file above the size limit', async () => {
    expect(await appErrorCode(stage(stream(11), 10))).equal('payload_too_large');
    expect(await appErrorCode(stage(stream(LARGE_BYTES), LARGE_BYTES - 1))).equal('payload_too_large');
    expect(await leftovers()).deep.equal([]);
    expect((await stage(stream(10), 10)).sizeBytes).equal(10);
  });

  it('stores nothing of an upload whose stream breaks, and throws the error of the stream', async () => {
    for (const sizeBytes of [10, LARGE_BYTES]) {
      const broken = stream(sizeBytes, () => {
        throw new Error('connection lost');
      });
      expect(await stage(broken).catch((error: unknown) => String(error))).equal('Error: connection lost');
    }
    expect(await leftovers()).deep.equal([]);
  });

  it('throws blob_missing when a missing object is read, and deletes a missing object without error', async () => {
    await store.delete('org/none');
    expect(await store.exists('org/none')).equal(false);
    const missing = await store.read('org/none').catch((error: unknown) => error);
    expect(missing).property('code', 'blob_missing');
    // Clients see the message, and the key is the hash of content that they may not read.
    expect(missing).property('message').not.include('org/none');
    expect(await appErrorCode(store.withLocalFile('org/none', async () => {}))).equal('blob_missing');
    await putBlob(store, 'org/one', 'short-lived');
    await store.delete('org/one');
    expect(await store.exists('org/one')).equal(false);
  });

  it('rejects keys that lead out of the store', async () => {
    for (const key of ['../outside', '/etc/passwd', 'org//x', 'org/..', '']) {
      expect(await store.read(key).catch((error: unknown) => String(error)), key).match(/not a blob key/);
      expect(await store.promote(key, 'org/one').catch((error: unknown) => String(error)), key).match(/not a blob key/);
    }
  });

  it('lists all objects page by page, each once', async () => {
    expect(await store.list({ after: null, limit: 10 })).deep.equal([]);
    const keys = ['acme/five', 'acme/four', 'acme/one', 'acme-2/one', 'lone', 'zoo/deep/one', 'zoo/two'];
    for (const key of keys) await putBlob(store, key, key);
    await staged('not an object');
    const listed: string[] = [];
    for (let pages = 0; pages <= keys.length / 2; pages += 1) {
      for (const { key, sizeBytes, storedAt } of await store.list({ after: listed.at(-1) ?? null, limit: 2 })) {
        expect(sizeBytes).equal(key.length);
        expect(Date.now() - storedAt.getTime()).within(-2_000, 60_000);
        listed.push(key);
      }
    }
    expect(listed).members(keys);
    expect(listed).length(keys.length);
  });

  it('keeps uploads in progress when it deletes what crashed uploads left', async () => {
    await store.deleteStrays();
    const { stagingKey } = await staged('under way');
    await putBlob(store, 'org/kept', 'kept');
    await store.deleteStrays();
    await store.promote(stagingKey, 'org/one');
    expect(await contentOf('org/one')).equal('under way');
    expect(await contentOf('org/kept')).equal('kept');
  });
}
