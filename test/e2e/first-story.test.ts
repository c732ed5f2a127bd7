import { expect } from 'chai';
import { anIngestedDocument, aPublishedAgent, ask } from '#test/support/builders.ts';
import { dropCollections, newCollectionPrefix, testQdrantUrl } from '#test/support/services.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { untilJob } from '#test/support/until-job.ts';

const stores: Record<string, () => Promise<{ stack: Stack; close?: () => Promise<void> }>> = {
  'with its vectors in Postgres': async () => ({ stack: await stack() }),
  'with its vectors in Qdrant': async () => {
    const [url, prefix] = [testQdrantUrl(), newCollectionPrefix()];
    const own = await startStack({ QDRANT_URL: url, QDRANT_COLLECTION_PREFIX: prefix });
    const close = () => own.close().then(() => dropCollections({ url, apiKey: null }, prefix));
    return { stack: own, close };
  },
};

for (const [place, open] of Object.entries(stores)) {
  describe(`a new user of a service that runs ${place}`, () => {
    let s: Stack;
    let close: (() => Promise<void>) | undefined;
    before(async () => {
      ({ stack: s, close } = await open());
    });
    after(() => close?.());

    it('can paste a text and ask an agent; the answer is scored, and its citation opens the passage', async () => {
      const ada = await s.signUp();
      const content =
        '# Returns\n\nGoods can be returned within 30 days of delivery.\n\n# Shipping\n\nWe ship to Norway.';
      const documentId = await anIngestedDocument(ada, 'Returns', content);
      await expectStoresMatch(s);
      const agent_id = await aPublishedAgent(ada, { anchor_words: { returns: 5, shipping: 5 } });
      const message = 'Within how many days can goods be returned?';
      const { reply, citations, postprocess_job_id } = await ask(ada, { agent_id, message }, 201);
      expect(reply).contain('30 days');
      expect(citations.map((citation) => citation.document_id)).deep.equal([documentId]);
      const { body: chunk } = await ada.get(`/documents/chunks/${citations[0]?.chunk_id}`, 200);
      expect(chunk).include({ page_number: 1, content_offset: 0, document_name: 'Returns' });
      expect(Object(chunk).content).contain('within 30 days of delivery');
      await untilJob(ada, postprocess_job_id, 'succeeded');
      const [round] = await s.container.db('rounds').where({ orgId: ada.orgId });
      expect(round?.answerEvents).deep.equal([]);
    });
  });
}
