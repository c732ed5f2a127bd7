import { itBacksUpAndRestores } from '#test/support/backup-story.ts';
import { createBucket, openBucket, s3Endpoint } from '#test/support/s3.ts';

describe('backup and restore, with originals in S3', () => {
  before(async function () {
    await openBucket(this);
  });
  itBacksUpAndRestores(async () => (await createBucket(s3Endpoint() ?? '')).environment);
});
