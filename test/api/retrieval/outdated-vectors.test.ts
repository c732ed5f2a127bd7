import { expect } from 'chai';
import type { VectorHit, VectorStore } from '#src/ports/vector-store.ts';
import { adaOf, question, useRetrievalFixture } from '#test/support/retrieval-fixture.ts';

describe('retrieval from an outdated vector store', () => {
  const { fixture, organization } = useRetrievalFixture();

  const vectorsOnly = { mode: 'vector', vectorLimit: 4, minVectorSimilarity: -1 } as const;
  const add = (texts: string[]) => fixture().addDocument(organization(), { texts, retrieval: vectorsOnly });
  const documents = () => fixture().db('documents');

  /** A store that has these points, best first, whatever is asked of it, and remembers for how many it was asked. */
  function storeOf(chunkIds: readonly string[]) {
    const asked: number[] = [];
    const vectors: Pick<VectorStore, 'search'> = {
      search: async ({ limit }) => {
        asked.push(limit);
        return chunkIds.slice(0, limit).map((chunkId, index): VectorHit => ({ chunkId, similarity: 1 - index / 1e6 }));
      },
    };
    return { vectors, asked };
  }
  async function ask(vectors: Pick<VectorStore, 'search'>): Promise<string[]> {
    const retrieval = fixture().createRetrieval({ vectors });
    const { chunks, degradations } = await retrieval.retrieve(adaOf(organization().orgId), question('loan'));
    expect(degradations).deep.equal([]);
    return chunks.map(({ content }) => content);
  }
  const ids = (count: number) => Array.from({ length: count }, () => crypto.randomUUID());

  it('lets outdated hits displace no readable ones', async () => {
    const present = await add(['one', 'two', 'three', 'four', 'five']);
    const deleted = await add(['deleted']);
    await documents().where({ id: deleted.documentId }).update({ deletedAt: new Date(), acl: [] });
    const takenAway = await add(['taken away']);
    await documents()
      .where({ id: takenAway.documentId })
      .update({ acl: ['user:eve'] });
    const replaced = await add(['of an old generation']);
    await documents().where({ id: replaced.documentId }).update({ activeGeneration: 2, generation: 2 });
    const elsewhere = await fixture().addDocument(await fixture().addOrganization(), { texts: ['of somebody else'] });
    const past = [deleted, takenAway, replaced, elsewhere].flatMap((document) => document.chunkIds);

    const { vectors, asked } = storeOf([...past, ...ids(3), ...present.chunkIds]);
    expect(await ask(vectors)).deep.equal(['one', 'two', 'three', 'four']);
    expect(asked).deep.equal([4, 32]);
  });

  it('ignores hits for settings that a document no longer has', async () => {
    const { chunkIds } = await add(['found by vectors']);
    const changed = await add(['found by words now']);
    await documents()
      .where({ id: changed.documentId })
      .update({ ragConfig: fixture().db.raw(`jsonb_set(rag_config, '{retrieval,mode}', '"word_match"')`) });
    expect(await ask(storeOf([...changed.chunkIds, ...chunkIds]).vectors)).deep.equal(['found by vectors']);
  });

  it('searches deeper while pages are full of outdated hits, up to a limit', async () => {
    const { chunkIds } = await add(['one', 'two']);
    const far = storeOf([...ids(100), ...chunkIds]);
    expect(await ask(far.vectors)).deep.equal(['one', 'two']);
    expect(far.asked).deep.equal([4, 32, 256]);
    const hopeless = storeOf([...ids(9_999), ...chunkIds]);
    expect(await ask(hopeless.vectors)).deep.equal([]);
    expect(hopeless.asked).deep.equal([4, 32, 256]);
  });

  it('searches twice when all hits together do not fill a page', async () => {
    const { chunkIds } = await add(['one', 'two']);
    const { vectors, asked } = storeOf([...ids(1), ...chunkIds]);
    expect(await ask(vectors)).deep.equal(['one', 'two']);
    expect(asked).deep.equal([4, 32]);
  });
});
