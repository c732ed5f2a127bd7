import { itBacksUpAndRestores } from '#test/support/backup-story.ts';
import { newCollectionPrefix } from '#test/support/qdrant.ts';
import { testQdrantUrl } from '#test/support/services.ts';

describe('backup and restore', function () {
  this.timeout(120_000);

  describe('with originals in files, and vectors in Postgres', () => {
    itBacksUpAndRestores(async () => ({}));
  });

  describe('with vectors in Qdrant, which are not in the backup', () => {
    itBacksUpAndRestores(async () => ({
      VECTOR_STORE: 'qdrant',
      QDRANT_URL: testQdrantUrl(),
      QDRANT_COLLECTION_PREFIX: newCollectionPrefix(),
    }));
  });
});
