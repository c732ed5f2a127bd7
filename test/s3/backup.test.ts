import { itBacksUpAndRestores } from '#test/support/backup-story.ts';
import { createBucket, openBucket } from '#test/support/s3.ts';

describe('backup and restore, with originals in S3', function () {
  this.timeout(120_000);
  before(async function () {
    await openBucket(this);
  });
  itBacksUpAndRestores(async () => (await createBucket(process.env.TEST_S3_URL ?? '')).environment);
});
