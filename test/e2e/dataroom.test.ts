import { itServesTheDataroom } from '#test/support/dataroom-story.ts';

describe('the dataroom, with originals in files', function () {
  this.timeout(120_000);
  itServesTheDataroom(async () => ({}));
});
