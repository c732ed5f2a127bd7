import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { expect } from 'chai';
import { documentCalled } from '#test/support/connector-provider-cases.ts';
import { type ConnectorStack, s3Fields } from '#test/support/connector-stack.ts';
import {
  countsOf,
  importFiles,
  importStack,
  noChanges,
  shelf,
  sync,
  untilIngested,
} from '#test/support/import-stack.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';

describe('imports from S3', () => {
  let api: ConnectorStack;
  let bucket: TestBucket;
  beforeEach(async function () {
    bucket = await openBucket(this);
    api = await importStack();
  });

  const put = (Key: string, Body = Key) =>
    bucket.client.send(new PutObjectCommand({ Bucket: bucket.settings.bucket, Key, Body }));
  const remove = (Key: string) => bucket.client.send(new DeleteObjectCommand({ Bucket: bucket.settings.bucket, Key }));

  it('make documents of the objects of a bucket', async () => {
    await put('a.txt', 'One.');
    await put('deep/er/b.txt', 'Two.');
    const member = await api.signUp();
    const { body } = await member.post('/connectors/acme_s3/connections', s3Fields(bucket), 201);
    const files = [{ path: 'a.txt' }, { path: 'deep' }];
    const results = await importFiles(member, { connection_id: Object(body).id, files });
    expect(results.map(({ status }) => status)).deep.equal(['queued', 'queued']);
    expect(await shelf(member)).deep.equal(['a.txt', 'deep/er/b.txt']);
  });

  it('mirror edits, renames and deletions by a full listing in each sync', async () => {
    for (const key of ['in/a.txt', 'in/b.txt', 'in/sub/c.txt', 'in/d.txt', 'out/x.txt']) await put(key);
    const member = await api.signUp();
    const { id } = Object((await member.post('/connectors/acme_s3/connections', s3Fields(bucket), 201)).body);
    const wanted = { enabled: false, folder: 'in', delete_missing: true };
    await member.patch(`/connectors/connections/${id}`, { config: { sync: wanted } }, 200);
    expect(await sync(member, id)).include({ mode: 'full', ...noChanges, added: 4 });
    expect(countsOf(await sync(member, id))).deep.equal({ ...noChanges, unchanged: 4 });

    await put('in/a.txt', 'Edited.');
    for (const key of ['in/b.txt', 'in/d.txt']) await remove(key);
    await put('in/renamed.txt', 'in/d.txt');
    const third = await sync(member, id);
    expect(third).include({ mode: 'full', ...noChanges, added: 1, updated: 1, unchanged: 1, deleted: 2 });
    expect(await shelf(member)).deep.equal(['a.txt', 'renamed.txt', 'sub/c.txt']);
    await untilIngested(member);
    const edited = await documentCalled(member, 'a.txt');
    expect((await member.get(`/documents/${edited.id}`, 200)).body).include({ content: 'Edited.' });
  });
});
