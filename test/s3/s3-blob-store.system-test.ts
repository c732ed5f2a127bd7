import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { inspect } from 'node:util';
import { CreateMultipartUploadCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { expect } from 'chai';
import { createS3BlobStore } from '#src/adapters/blob/s3-blob-store.ts';
import { itKeepsBlobs } from '#test/activities/blobs/blob-store.contract.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import { startTcpProxy } from '#test/support/proxies.ts';
import { putBlob } from '#test/support/put-blob.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';

describe('the S3 blob store', () => {
  let bucket: TestBucket;
  let prefix: string;
  before(async function () {
    bucket = await openBucket(this);
  });
  beforeEach(() => {
    prefix = `${randomBytes(6).toString('hex')}/`;
  });

  const open = (settings: Partial<TestBucket['settings']> = {}) =>
    createS3BlobStore({ ...bucket.settings, prefix, ...settings, tempDir: tmpdir() });
  const leftovers = () => bucket.keys(`${prefix}incoming/`);
  const read = (settings: Partial<TestBucket['settings']>) => open(settings).read('org/one');

  itKeepsBlobs(async () => ({ store: open(), leftovers }));

  it('lists objects with any page size, and ignores objects in the bucket that other programs stored', async () => {
    const other = { Bucket: bucket.settings.bucket, Key: `other-${prefix}file`, Body: 'not ours' };
    await bucket.client.send(new PutObjectCommand(other));
    await putBlob(open(), 'org/one', 'ours');
    expect((await open().list({ after: null, limit: 5_000 })).map(({ key }) => key)).deep.equal(['org/one']);
  });

  it('signs a URL that downloads the object with its file name and media type, without credentials', async () => {
    await putBlob(open(), 'org/one', 'over there');
    const options = { fileName: 'größe "1".html', mediaType: 'text/html', expiresInSeconds: 60 };
    const url = await open().signedUrl('org/one', options);
    const response = await fetch(url ?? '', { headers: { Range: 'bytes=0-3' } });
    expect(await response.text()).equal('over');
    expect(response.headers.get('content-type')).equal('text/html');
    expect(response.headers.get('content-disposition')).match(/^attachment; .*filename\*=UTF-8''gr%C3%B6%C3%9Fe%20/);
    expect((await fetch((url ?? '').replace(/Signature=\w{4}/, 'Signature=0000'))).status).equal(403);
  });

  it('deletes what crashed uploads left in the bucket once it is old enough', async () => {
    const at = { Bucket: bucket.settings.bucket, Key: `${prefix}incoming/crashed` };
    await bucket.client.send(new CreateMultipartUploadCommand(at));
    await bucket.client.send(new PutObjectCommand({ ...at, Key: `${at.Key}-too`, Body: 'half' }));
    const keys = [at.Key, `${at.Key}-too`];
    await open().deleteStrays();
    expect(await leftovers()).members(keys);
    await createS3BlobStore({ ...bucket.settings, prefix, tempDir: tmpdir(), strayAfterMs: -60_000 }).deleteStrays();
    expect(await leftovers()).deep.equal([]);
  });

  it('throws service_unavailable while too many bytes wait for their upload, and counts no byte twice', async () => {
    const store = createS3BlobStore({ ...bucket.settings, prefix, tempDir: tmpdir(), maxWaitingBytes: 1_000 });
    const put = (bytes: number) => putBlob(store, 'org/one', Buffer.alloc(bytes));
    expect(await appErrorCode(put(1_001))).equal('service_unavailable');
    for (const bytes of [1_000, 1_000]) await put(bytes);
    const both = await Promise.allSettled([put(600), putBlob(store, 'org/two', Buffer.alloc(600))]);
    expect(both.map(({ status }) => status)).include('rejected');
    await put(1_000);
    expect(await leftovers()).deep.equal([]);
  });

  it('throws blob_store_refused for a wrong key or a missing bucket, and reveals no secret', async () => {
    const secretAccessKey = 'a-secret-that-must-not-appear';
    for (const wrong of [{ secretAccessKey }, { accessKeyId: 'stranger' }, { bucket: 'test-nowhere' }]) {
      expect(await appErrorCode(read(wrong)), JSON.stringify(wrong)).equal('blob_store_refused');
    }
    const error = await read({ secretAccessKey }).catch((thrown: unknown) => thrown);
    expect(inspect(error, { depth: 9, showHidden: true })).not.include(secretAccessKey);
    expect(await appErrorCode(putBlob(open({ secretAccessKey }), 'org/one', 'x'))).equal('blob_store_refused');
  });

  it('serves other requests while clients do not read their downloads', async () => {
    const store = open();
    await putBlob(store, 'org/large', Buffer.alloc(1024 ** 2));
    const unread = await Promise.all(Array.from({ length: 60 }, () => store.read('org/large')));
    await putBlob(store, 'org/one', 'x');
    expect(await store.exists('org/one')).equal(true);
    for (const content of unread) content.destroy();
  });

  it('throws service_unavailable while the server is silent or unreachable, and works again afterwards', async () => {
    const proxy = await startTcpProxy({ port: Number(new URL(bucket.settings.endpoint).port) });
    try {
      const store = open({ endpoint: `http://127.0.0.1:${proxy.port}` });
      await putBlob(store, 'org/one', 'before');
      proxy.swallow();
      expect(await appErrorCode(store.delete('org/one', AbortSignal.timeout(200)))).equal('service_unavailable');
      proxy.heal();
      expect(await store.exists('org/one')).equal(true);
      proxy.cut();
      for (const work of [
        () => store.read('org/one'),
        () => store.exists('org/one'),
        () => store.delete('org/one'),
        () => store.list({ after: null, limit: 1 }),
        () => putBlob(store, 'org/two', 'x'),
      ]) {
        expect(await appErrorCode(work())).equal('service_unavailable');
      }
      proxy.heal();
      expect(await store.exists('org/one')).equal(true);
    } finally {
      await proxy.close();
    }
  });
});
