import { expect } from 'chai';
import { downloaded, exportOf, recordsOf, unpack } from '#test/support/exported.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';
import { type Stack, startStack } from '#test/support/stack.ts';

describe('exports of an organization that are stored in S3', () => {
  let bucket: TestBucket;
  let own: Stack | undefined;

  before(async function () {
    bucket = await openBucket(this);
    own = await startStack(bucket.environment);
  });
  after(() => own?.close());

  it('are downloaded from S3 directly, and leave nothing when they are deleted', async () => {
    const ada = await (own as Stack).signUp();
    await ada.upload('/documents', { name: 'note.txt', content: 'A text.' }, 201, { fields: { ingest: 'false' } });
    const before = await bucket.keys();
    const { export_id, volumes } = await exportOf(ada);
    for (const { download_url } of volumes) expect(download_url).contain(bucket.settings.endpoint);
    const files = await unpack(await downloaded(volumes));
    const [document] = recordsOf(files, 'documents');
    expect(String(files.get(Object(document?.original).path))).equal('A text.');
    await ada.delete(`/entity/org/exports/${export_id}`, 204);
    expect(await bucket.keys()).deep.equal(before);
  });
});
