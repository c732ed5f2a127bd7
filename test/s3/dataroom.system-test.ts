import { itServesTheDataroom } from '#test/support/dataroom-story.ts';
import { openBucket, type TestBucket } from '#test/support/s3.ts';
import { startStack } from '#test/support/stack.ts';

describe('the dataroom, with originals in S3', () => {
  let bucket: TestBucket;
  before(async function () {
    bucket = await openBucket(this);
  });
  itServesTheDataroom((settings) => startStack({ ...bucket.environment, ...settings }));
});
