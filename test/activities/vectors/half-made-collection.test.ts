import { randomBytes } from 'node:crypto';
import { QdrantClient } from '@qdrant/js-client-rest';
import { expect } from 'chai';
import { createQdrantClient, payloadFieldEqualsCondition } from '#src/adapters/vectors/qdrant-client.ts';
import { testQdrantUrl } from '#test/support/services.ts';

describe('a Qdrant collection without indexes, after a killed process', () => {
  it('is empty, and accepts points', async () => {
    const url = testQdrantUrl();
    const collectionPrefix = `half${randomBytes(4).toString('hex')}`;
    const points = createQdrantClient({ url, apiKey: null, collectionPrefix });
    const collection = points.collectionOf('model');
    const server = new QdrantClient({ url, checkCompatibility: false });
    await server.createCollection(collection, {
      vectors: { size: 2, distance: 'Cosine' },
      strict_mode_config: { enabled: true, unindexed_filtering_retrieve: false, unindexed_filtering_update: false },
    });
    try {
      const selection = { orgId: 'acme', must: [payloadFieldEqualsCondition('document_id', 'd')] };
      expect(await points.count(collection, selection)).equal(0);
      await points.delete(collection, selection);
      const point = { id: crypto.randomUUID(), vector: [1, 0], payload: { document_id: 'd', generation: 1 } };
      const upsert = { orgId: 'acme', points: [point], onlyIf: payloadFieldEqualsCondition('generation', 1) };
      await points.upsert(collection, upsert, 2);
      expect(await points.count(collection, selection)).equal(1);
    } finally {
      await server.deleteCollection(collection);
    }
  });
});
