import { expect } from 'chai';
import { appError } from '#src/errors.ts';
import type { EmbedderFactory } from '#src/ports/models.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { adaOf, question, useRetrievalFixture, wordEmbedders } from '#test/support/retrieval-fixture.ts';

type VectorSearch = Parameters<VectorStore['search']>[0];

describe('retrieval from documents with different configurations', () => {
  const { fixture, organization, add } = useRetrievalFixture();

  /** Asks, and notes what that costs. */
  async function ask(query: string, documents: { includeDocumentIds?: string[]; excludeDocumentIds?: string[] } = {}) {
    const cost = { vectorSearches: [] as VectorSearch[], wordSearches: 0, wordsAtOnce: 0, embedded: [] as string[] };
    let running = 0;
    const vectors: Pick<VectorStore, 'search'> = {
      search: async (input) => {
        cost.vectorSearches.push(input);
        return fixture().vectors.search(input);
      },
    };
    const embedders: EmbedderFactory = {
      of: (model) => ({
        model,
        embed: async (texts) => {
          cost.embedded.push(...texts.map((text) => `${model}: ${text}`));
          return wordEmbedders.of(model).embed(texts);
        },
      }),
    };
    const models = { reranker: async () => null, queryPrefix: async (model: string) => `${model} asks ` };
    const isWordSearch = ({ sql }: { sql: string }) => /^with scored/.test(sql);
    const beginWordSearch = (query: { sql: string }) => {
      if (!isWordSearch(query)) return;
      cost.wordSearches += 1;
      running += 1;
      cost.wordsAtOnce = Math.max(cost.wordsAtOnce, running);
    };
    const endWordSearch = (_rows: unknown, query: { sql: string }) => {
      if (isWordSearch(query)) running -= 1;
    };
    fixture().db.on('query', beginWordSearch).on('query-response', endWordSearch);
    try {
      const retrieval = fixture().createRetrieval({ vectors, embedders, models });
      const found = await retrieval.rankChunks(adaOf(organization().orgId), { ...question(query), ...documents });
      expect(found.degradations).deep.equal([]);
      return { ...cost, texts: found.ranked.map((chunk) => chunk.content), ranked: found.ranked };
    } finally {
      fixture().db.off('query', beginWordSearch).off('query-response', endWordSearch);
    }
  }

  it('makes one vector search and one word search when all configurations are equal', async () => {
    for (let index = 0; index < 5; index += 1) await add({ texts: [`A loan of kind ${index}.`, 'The fee of a loan.'] });
    const { vectorSearches, wordSearches, embedded, texts } = await ask('loan fee');
    expect(vectorSearches).length(1);
    expect(wordSearches).equal(1);
    expect(embedded).deep.equal(['model-a: model-a asks loan fee']);
    expect(texts).length(10);
  });

  it('makes no search when no document is readable', async () => {
    await add({ texts: ['The fee of a loan.'], acl: ['user:eve'] });
    expect(await ask('loan fee')).deep.include({ vectorSearches: [], wordSearches: 0, embedded: [], texts: [] });
  });

  it('makes one search per leg for configurations that search alike, and one embedding per model', async () => {
    for (let rrfK = 1; rrfK <= 12; rrfK += 1) {
      for (const model of ['model-a', 'model-b']) {
        await add({ texts: [`Loan ${rrfK} of ${model}.`], model, retrieval: { rrfK } });
      }
    }
    await add({ texts: ['Loan by words.'], retrieval: { mode: 'word_match' } });
    await add({ texts: ['Loan by meaning.'], model: 'model-b', retrieval: { mode: 'vector' } });
    const { vectorSearches, wordSearches, embedded, texts } = await ask('loan');
    const settings = vectorSearches.map(({ readable, model }) => `${model}: ${readable.retrievalSettings?.length}`);
    expect(settings.sort()).deep.equal(['model-a: 12', 'model-b: 1', 'model-b: 12']);
    expect(wordSearches).equal(3);
    expect(embedded.sort()).deep.equal(['model-a: model-a asks loan', 'model-b: model-b asks loan']);
    expect(texts).length(26);
  });

  it('makes at most sixteen different searches and one more per model', async () => {
    const common = await add({ texts: ['A loan of two.', 'Another loan of two.'], retrieval: { vectorLimit: 1 } });
    await add({ texts: ['A third loan.'], retrieval: { vectorLimit: 1, rrfK: 1 } });
    for (let wordMatchLimit = 101; wordMatchLimit <= 120; wordMatchLimit += 1) {
      const model = wordMatchLimit % 2 === 0 ? 'model-a' : 'model-b';
      await add({ texts: [`Loan ${wordMatchLimit}.`], model, retrieval: { mode: 'word_match', wordMatchLimit } });
    }
    const { vectorSearches, wordSearches, texts, wordsAtOnce } = await ask('loan');
    expect(wordSearches).equal(18);
    // One of the four places is kept for other organizations.
    expect(wordsAtOnce).equal(3);
    expect(texts).length(23);
    // The largest group keeps its own way, the smallest ones are searched by vectors too.
    expect(vectorSearches.map(({ limit }) => limit).sort()).deep.equal([1, 50, 50]);
    const { texts: few } = await ask('loan', { includeDocumentIds: [common.documentId] });
    expect(few).length(2);
  });

  it('applies the settings of each document', async () => {
    await add({ texts: ['By both: mortgage.'] });
    await add({ texts: ['By words: mortgage.'], retrieval: { mode: 'word_match' } });
    await add({ texts: ['Only similar: mortgage.'], retrieval: { mode: 'vector', minVectorSimilarity: 0.9 } });
    await add({ texts: ['Of another model: mortgage.'], model: 'model-b', retrieval: { mode: 'vector' } });
    await add({
      texts: ['One of two mortgage.', 'Two of two mortgage.'],
      retrieval: { mode: 'vector', vectorLimit: 1 },
    });
    const { texts } = await ask('mortgage');
    expect(texts).include.members(['By both: mortgage.', 'By words: mortgage.', 'Of another model: mortgage.']);
    expect(texts).not.include('Only similar: mortgage.');
    expect(texts.filter((text) => text.endsWith('of two mortgage.'))).length(1);
  });

  it('applies new settings at once, and a new model only after its vectors are stored', async () => {
    const { documentId } = await add({ texts: ['The fee of a loan.'] });
    const set = (path: string, value: string) =>
      fixture()
        .db('documents')
        .where({ id: documentId })
        .update({
          ragConfig: fixture().db.raw('jsonb_set(rag_config, ?, to_jsonb(?::text))', [path, value]),
        });
    await set('{embedding,model}', 'model-b');
    expect(await ask('fee')).deep.include({ embedded: ['model-a: model-a asks fee'], texts: ['The fee of a loan.'] });
    await set('{retrieval,mode}', 'word_match');
    expect(await ask('fee')).deep.include({ embedded: [], texts: ['The fee of a loan.'] });
    expect(await ask('charge')).deep.include({ embedded: [], texts: [] });
  });

  it('searches only the groups of included documents, or of those that are not excluded', async () => {
    const first = await add({ texts: ['Loan one.'] });
    const second = await add({ texts: ['Loan two.'], model: 'model-b' });
    const others = Array.from({ length: 998 }, () => crypto.randomUUID());
    const included = await ask('loan', { includeDocumentIds: [...others, first.documentId] });
    expect(included).deep.include({ embedded: ['model-a: model-a asks loan'], texts: ['Loan one.'] });
    const excluded = await ask('loan', { excludeDocumentIds: [...others, first.documentId] });
    expect(excluded).deep.include({ embedded: ['model-b: model-b asks loan'], texts: ['Loan two.'] });
    const none = await ask('loan', { excludeDocumentIds: [first.documentId, second.documentId] });
    expect(none).deep.include({ embedded: [], vectorSearches: [], wordSearches: 0, texts: [] });
  });

  it('answers a query of stop words, and an empty query', async () => {
    await add({ texts: ['The fee of a loan.'] });
    await add({ texts: ['By words only.'], retrieval: { mode: 'word_match' } });
    expect(await ask('the of and')).deep.include({ wordSearches: 0, embedded: ['model-a: model-a asks the of and'] });
    expect(await ask(' \n ')).deep.include({ wordSearches: 0, vectorSearches: [], embedded: [], texts: [] });
  });

  it('truncates a very long query', async () => {
    await add({ texts: ['The fee of a loan.'] });
    const words = Array.from({ length: 20_000 }, (_, index) => `w${index}`).join(' ');
    const { embedded, texts } = await ask(`What is the loan fee? ${words}`.slice(0, 100_000));
    expect(embedded[0]?.length).most(4_100);
    expect(texts).deep.equal(['The fee of a loan.']);
    // Cut between the halves of a character.
    const { embedded: cut } = await ask(`${'loan '.repeat(799)}loan.${'😀'.repeat(9)}`.slice(1));
    expect(cut[0]?.isWellFormed()).equal(true);
  });

  it('reranks when one group asks for it, by the type of most groups, and keeps topK of each group', async () => {
    const texts = ['Loan one.', 'Loan two.', 'Loan three.'];
    await add({ texts, reranking: { enabled: true, rerankerType: 'cross_encoder', topK: 2 } });
    await add({ texts: ['Loan four.'], reranking: { enabled: true, rerankerType: 'llm', topK: 1 } });
    await add({
      texts: ['Loan five.'],
      retrieval: { rrfK: 9 },
      reranking: { enabled: true, rerankerType: 'llm', topK: 1 },
    });
    await add({ texts: ['Loan six.'], retrieval: { rrfK: 9 }, reranking: { enabled: false, topK: 1 } });
    const asked: { type: string; passages: number }[] = [];
    const retrieval = fixture().createRetrieval({
      rank: async (type, { passages }) => {
        asked.push({ type, passages: passages.length });
        return [...passages].reverse();
      },
    });
    const actor = adaOf(organization().orgId);
    const { ranked } = await retrieval.rankChunks(actor, question('loan'));
    expect(asked).deep.equal([{ type: 'llm', passages: 6 }]);
    expect(ranked.map(({ content }) => content))
      .length(5)
      .include.members(['Loan four.', 'Loan five.', 'Loan six.']);
    await retrieval.rankChunks(actor, { ...question('loan'), reranking: { isEnabled: false, type: null } });
    expect(asked).length(1);
  });

  it('returns passages of at most 3,000 tokens, or fewer for a model with a smaller budget', async () => {
    const texts = ['Loan one.', 'Loan two.', 'Loan three.', 'Loan four.'];
    const { documentId } = await add({ texts });
    await fixture().db('chunks').where({ documentId }).update({ tokenCount: 1_000 });
    const passages = async (contextTokens: number | null) => {
      const retrieval = fixture().createRetrieval();
      return (await retrieval.retrieve(adaOf(organization().orgId), { ...question('loan'), contextTokens })).chunks;
    };
    expect(await passages(null)).length(3);
    expect(await passages(100_000)).length(3);
    expect(await passages(2_500)).length(2);
  });

  for (const fails of [false, true]) {
    it(`returns no text of a document whose access was revoked while ${fails ? 'reranking failed' : 'passages were reranked'}`, async () => {
      const { documentId } = await add({ texts: ['Loan one.'], reranking: { enabled: true } });
      await add({ texts: ['Loan two.'] });
      const retrieval = fixture().createRetrieval({
        models: { reranker: async () => ({ model: null, isLocal: false }), queryPrefix: async () => '' },
        rank: async (_type, { passages }) => {
          await fixture()
            .db('documents')
            .where({ id: documentId })
            .update({ acl: ['user:eve'] });
          if (fails) throw appError('model_unavailable');
          return [...passages];
        },
      });
      const { chunks } = await retrieval.retrieve(adaOf(organization().orgId), question('loan'));
      expect(chunks.map(({ content }) => content)).deep.equal(['Loan two.']);
    });
  }
});
