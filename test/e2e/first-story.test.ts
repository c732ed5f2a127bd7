import { expect } from 'chai';
import { dropCollections, newCollectionPrefix } from '#test/support/qdrant.ts';
import { testQdrantUrl } from '#test/support/services.ts';
import { type Stack, stack, startStack } from '#test/support/stack.ts';
import { expectStoresMatch } from '#test/support/stores.ts';
import { untilJob, untilRun } from '#test/support/until-job.ts';

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
  describe(`the first story, ${place}: from a pasted text to a scored, cited answer`, () => {
    let s: Stack;
    let close: (() => Promise<void>) | undefined;
    before(async () => {
      ({ stack: s, close } = await open());
    });
    after(() => close?.());

    it('ingests, publishes, answers with a citation that opens the passage, and scores the round', async () => {
      const ada = await s.signUp();
      const pasted = await ada.post(
        '/documents/paste',
        {
          name: 'Returns',
          source_format: 'markdown',
          content: '# Returns\n\nGoods can be returned within 30 days of delivery.\n\n# Shipping\n\nWe ship to Norway.',
        },
        201,
      );
      const document = pasted.body as { id: string; chunking_job_id: string };
      await untilRun(ada, document.chunking_job_id, 'succeeded');
      await expectStoresMatch(s);

      const draft = await ada.post(
        '/agent-drafts',
        { agent_name: 'Shop', agent_prompt: 'You answer about our shop.', anchor_words: { returns: 5, shipping: 5 } },
        201,
      );
      const { id: draftId, head_version_id } = draft.body as { id: string; head_version_id: string };
      const agent = await ada.post(`/agent-drafts/${draftId}/publish`, { version_id: head_version_id }, 201);

      const answer = await ada.post(
        '/chat',
        { agent_id: (agent.body as { id: string }).id, message: 'Within how many days can goods be returned?' },
        201,
      );
      const { reply, citations, postprocess_job_id } = answer.body as {
        reply: string;
        citations: { chunk_id: string; document_id: string }[];
        postprocess_job_id: string;
      };
      expect(reply).to.contain('30 days');
      expect(citations).to.have.length(1);
      expect(citations[0]?.document_id).to.equal(document.id);
      const chunk = await ada.get(`/documents/chunks/${citations[0]?.chunk_id}`, 200);
      expect(chunk.body).to.include({ page_number: 1, content_offset: 0, document_name: 'Returns' });
      expect((chunk.body as { content: string }).content).to.contain('within 30 days of delivery');
      await untilJob(ada, postprocess_job_id, 'succeeded');
      const [round] = await s.container.db('rounds').where({ orgId: ada.orgId });
      expect(round?.answerEvents).to.deep.equal([]);
    });
  });
}
