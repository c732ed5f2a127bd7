import { mock } from 'node:test';
import { expect } from 'chai';
import { v7 as uuidv7 } from 'uuid';
import { appError } from '#src/errors.ts';
import type { EmbedderFactory } from '#src/ports/models.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  adaOf,
  addIndexedChunks,
  question,
  type RetrievalFixture,
  useRetrievalFixture,
  wordEmbedders,
} from '#test/support/indexed-documents.ts';

type Searcher = Pick<VectorStore, 'search'>;
type Parts = Parameters<RetrievalFixture['createRetrieval']>[0];
const contentsOf = (chunks: readonly { content: string }[]) => chunks.map(({ content }) => content);

describe('retrieval', () => {
  const { fixture, organization, add } = useRetrievalFixture();
  const retrieve = async (parts: Parts = {}, options = {}) =>
    fixture()
      .createRetrieval(parts)
      .retrieve(adaOf(organization().orgId), { ...question('loan'), ...options });

  /** Asks a question and notes the texts that are embedded, each with its model. */
  async function ask(query: string) {
    const embedded: string[] = [];
    const embedders: EmbedderFactory = {
      of: (model) => ({
        model,
        embed: async (texts) => {
          embedded.push(...texts.map((text) => `${model}: ${text}`));
          return wordEmbedders.of(model).embed(texts);
        },
      }),
    };
    const models = {
      reranker: async () => null,
      queryPrefix: async (model: string) => `${model} asks `,
      languages: async () => null,
    };
    const retrieval = fixture().createRetrieval({ embedders, models });
    const found = await retrieval.rankChunks(adaOf(organization().orgId), question(query));
    expect(found.degradations).deep.equal([]);
    return { embedded, texts: contentsOf(found.ranked) };
  }

  it('finds documents of any number of configurations, and embeds the question once for each model', async () => {
    await add({ texts: ['A loan of two.', 'Another loan of two.'], retrieval: { vectorLimit: 1 } });
    for (let wordMatchLimit = 101; wordMatchLimit <= 120; wordMatchLimit += 1) {
      const model = wordMatchLimit % 2 === 0 ? 'model-a' : 'model-b';
      await add({ texts: [`Loan ${wordMatchLimit}.`], model, retrieval: { rrfK: wordMatchLimit, wordMatchLimit } });
    }
    const { embedded, texts } = await ask('loan');
    expect(embedded.sort()).deep.equal(['model-a: model-a asks loan', 'model-b: model-b asks loan']);
    expect(texts).length(22);
  });

  it('applies the retrieval settings of each document', async () => {
    await add({ texts: ['By both: mortgage.'] });
    await add({ texts: ['By words: mortgage.'], retrieval: { mode: 'word_match' } });
    await add({ texts: ['Only similar: mortgage.'], retrieval: { mode: 'vector', minVectorSimilarity: 0.9 } });
    await add({ texts: ['Of another model: mortgage.'], model: 'model-b', retrieval: { mode: 'vector' } });
    const oneOfTwo = { mode: 'vector', vectorLimit: 1 } as const;
    await add({ texts: ['One of two mortgage.', 'Two of two mortgage.'], retrieval: oneOfTwo });
    const { texts } = await ask('mortgage');
    expect(texts).include.members(['By both: mortgage.', 'By words: mortgage.', 'Of another model: mortgage.']);
    expect(texts).not.include('Only similar: mortgage.');
    expect(texts.filter((text) => text.endsWith('of two mortgage.'))).length(1);
  });

  it('applies new settings at once, and a new embedding model only after its vectors are stored', async () => {
    const { documentId } = await add({ texts: ['The fee of a loan.'] });
    const set = (path: string, value: string) => {
      const ragConfig = fixture().db.raw('jsonb_set(rag_config, ?, to_jsonb(?::text))', [path, value]);
      return fixture().db('documents').where({ id: documentId }).update({ ragConfig });
    };
    await set('{embedding,model}', 'model-b');
    expect(await ask('fee')).deep.equal({ embedded: ['model-a: model-a asks fee'], texts: ['The fee of a loan.'] });
    await set('{retrieval,mode}', 'word_match');
    expect(await ask('fee')).deep.equal({ embedded: [], texts: ['The fee of a loan.'] });
    expect(await ask('charge')).deep.equal({ embedded: [], texts: [] });
  });

  it('accepts a question of stop words only, an empty question and a very long question', async () => {
    await add({ texts: ['The fee of a loan.'] });
    expect((await ask('the of and')).embedded).deep.equal(['model-a: model-a asks the of and']);
    expect(await ask(' \n ')).deep.equal({ embedded: [], texts: [] });
    const words = Array.from({ length: 20_000 }, (_, index) => `w${index}`).join(' ');
    const { embedded, texts } = await ask(`What is the loan fee? ${words}`.slice(0, 100_000));
    expect(embedded[0]?.length).most(4_100);
    expect(texts).deep.equal(['The fee of a loan.']);
    // Cut between the halves of a character.
    const cut = await ask(`${'loan '.repeat(799)}loan.${'😀'.repeat(9)}`.slice(1));
    expect(cut.embedded[0]?.isWellFormed()).equal(true);
  });

  it('finds words in the language of each document, and ranks by them where the model does not know it', async () => {
    const { chunkIds } = await add({
      texts: ['Договоры аренды.', 'О договоре, цене и сроке.', 'Иное.'],
      language: 'ru',
    });
    await add({ texts: ['Verträge der Miete.'], language: 'de', retrieval: { mode: 'word_match' } });
    const similar = [chunkIds[1] ?? '', chunkIds[2] ?? ''];
    const vectors: Searcher = {
      search: async () => similar.map((chunkId, index) => ({ chunkId, similarity: 0.9 - index / 10 })),
    };
    const models = { reranker: async () => null, queryPrefix: async () => '' };
    for (const [languages, contents] of [
      [['en'], ['Договоры аренды.', 'О договоре, цене и сроке.', 'Иное.']],
      [null, ['О договоре, цене и сроке.', 'Договоры аренды.', 'Иное.']],
    ] as const) {
      const retrieval = fixture().createRetrieval({ vectors, models: { ...models, languages: async () => languages } });
      const actor = adaOf(organization().orgId);
      expect(contentsOf((await retrieval.rankChunks(actor, question('договоров'))).ranked)).deep.equal(contents);
      const { ranked } = await retrieval.rankChunks(actor, question('Vertrag'));
      expect(contentsOf(ranked)).include('Verträge der Miete.');
    }
  });

  it('reports that no reranker is configured if the chat asks for reranking, but not if only a document does', async () => {
    await add({ texts: ['Loan one.', 'Loan two.'], reranking: { enabled: true, rerankerType: 'cross_encoder' } });
    const asked: string[] = [];
    const { rankChunks } = fixture().createRetrieval({
      rank: async (type) => {
        asked.push(type);
        throw appError('model_not_configured');
      },
    });
    for (const [isEnabled, types, reasons] of [
      [null, [], []],
      [true, ['cross_encoder'], ['reranker_unavailable']],
    ] as const) {
      const options = { ...question('loan'), reranking: { isEnabled, type: null } };
      const { ranked, degradations } = await rankChunks(adaOf(organization().orgId), options);
      expect([ranked.length, asked, degradations.map(({ reason }) => reason)]).deep.equal([2, types, reasons]);
    }
  });

  it('returns passages of at most 3,000 tokens in total, or fewer for a model with a smaller budget', async () => {
    const { documentId } = await add({ texts: ['Loan one.', 'Loan two.', 'Loan three.', 'Loan four.'] });
    await fixture().db('chunks').where({ documentId }).update({ tokenCount: 1_000 });
    for (const [contextTokens, count] of [
      [null, 3],
      [100_000, 3],
      [2_500, 2],
    ] as const) {
      expect((await retrieve({}, { contextTokens })).chunks, `${contextTokens}`).length(count);
    }
  });

  for (const fails of [false, true]) {
    it(`omits a document to which the caller loses access while reranking ${fails ? 'fails' : 'runs'}`, async () => {
      const { documentId: id } = await add({ texts: ['Loan one.'], reranking: { enabled: true } });
      await add({ texts: ['Loan two.'] });
      const { chunks } = await retrieve({
        models: {
          reranker: async () => ({ model: null, isLocal: false }),
          queryPrefix: async () => '',
          languages: async () => null,
        },
        rank: async (_type, { passages }) => {
          const acl = ['user:eve'];
          await fixture().db('documents').where({ id }).update({ acl });
          if (fails) throw appError('model_unavailable');
          return [...passages];
        },
      });
      expect(contentsOf(chunks)).deep.equal(['Loan two.']);
    });
  }

  describe('with an outdated vector store', () => {
    const addTexts = (texts: string[]) =>
      add({ texts, retrieval: { mode: 'vector', vectorLimit: 4, minVectorSimilarity: -1 } });
    const ids = (count: number) => Array.from({ length: count }, () => crypto.randomUUID());

    /** A store that has these points, best first, for any query. @returns what is found, and the limits of the queries */
    async function askStoreOf(chunkIds: readonly string[]) {
      const limits: number[] = [];
      const vectors: Searcher = {
        search: async ({ limit }) => {
          limits.push(limit);
          return chunkIds.slice(0, limit).map((chunkId, index) => ({ chunkId, similarity: 1 - index / 1e6 }));
        },
      };
      const { chunks, degradations } = await retrieve({ vectors });
      expect(degradations).deep.equal([]);
      return { texts: contentsOf(chunks), limits };
    }

    it('returns readable passages even below hits that are deleted, hidden, replaced or of another organization', async () => {
      const present = await addTexts(['one', 'two', 'three', 'four', 'five']);
      const { db } = fixture();
      const changes: Record<string, object> = {
        deleted: { deletedAt: new Date(), acl: [] },
        hidden: { acl: ['user:eve'] },
        replaced: { activeGeneration: 2, generation: 2 },
        'found by words now': { ragConfig: db.raw(`jsonb_set(rag_config, '{retrieval,mode}', '"word_match"')`) },
      };
      const past = await fixture().addDocument(await fixture().addOrganization(), { texts: ['foreign'] });
      const outdated = [...past.chunkIds];
      for (const [text, change] of Object.entries(changes)) {
        const { documentId: id, chunkIds } = await addTexts([text]);
        await db('documents').where({ id }).update(change);
        outdated.push(...chunkIds);
      }
      const { texts, limits } = await askStoreOf([...outdated, ...ids(3), ...present.chunkIds]);
      expect(texts).deep.equal(['one', 'two', 'three', 'four']);
      expect(limits).deep.equal([4, 32]);
    });

    it('searches deeper while pages of hits are full of outdated hits, up to a limit', async () => {
      const { chunkIds } = await addTexts(['one', 'two']);
      for (const [outdated, texts, limits] of [
        [1, ['one', 'two'], [4, 32]],
        [100, ['one', 'two'], [4, 32, 256]],
        [9_999, [], [4, 32, 256]],
      ] as const) {
        expect(await askStoreOf([...ids(outdated), ...chunkIds])).deep.equal({ texts, limits });
      }
    });
  });

  it('returns the new generation of a document that is activated during the search', async () => {
    const old = await add({ texts: ['The old fee of a loan.'] });
    let searches = 0;
    const vectors: Searcher = {
      search: async (input) => {
        searches += 1;
        const hits = await fixture().vectors.search(input);
        if (searches > 1) return hits;
        const { db } = fixture();
        const { documentId, generation } = old;
        const built = await db('documentGenerations').where({ documentId, generation }).first();
        await db('documentGenerations').insert({ ...built, generation: 2 });
        await addIndexedChunks(db, { ...old, generation: 2 }, ['The new fee of a loan.']);
        const updatedAt = db.raw('clock_timestamp()');
        await db('documents').where({ id: documentId }).update({ activeGeneration: 2, generation: 2, updatedAt });
        return hits;
      },
    };
    expect(contentsOf((await retrieve({ vectors })).chunks)).deep.equal(['The new fee of a loan.']);
    expect(searches).equal(2);
  });

  it('searches a large scope by its folders, also if the vector store does not know them', async () => {
    const { db, vectors: store } = fixture();
    const { orgId, userId: createdBy } = organization();
    const ids = await Promise.all(
      ['Loan one.', 'Loan two.', 'Loan three.', 'Loan four.'].map(
        async (text) => (await add({ texts: [text] })).documentId,
      ),
    );
    const [root, below] = [uuidv7(), uuidv7()];
    for (const [id, parentId, of] of [
      [root, null, ids[0]],
      [below, root, ids[1]],
    ] as const) {
      const kind = parentId === null ? { kind: 'system', systemRole: 'org_root' } : { kind: 'user' };
      const folder = { id, orgId, parentId, rootId: root, name: 'A', visibility: 'org_level', acl: [], createdBy };
      await db('folders').insert({ ...folder, ...kind });
      await db('folderLinks').insert({ orgId, folderId: id, documentId: of, createdBy });
    }
    const scope = { folderIds: [root], documentIds: ids.slice(2, 3) };
    const unaware: Searcher = {
      search: ({ readable: { scope: _ignored, ...readable }, ...input }) => store.search({ ...input, readable }),
    };
    for (const parts of [{}, { listedDocuments: 0 }, { listedDocuments: 0, vectors: unaware }, { vectors: unaware }]) {
      const { chunks } = await retrieve(parts, { scope });
      expect(contentsOf(chunks)).have.members(['Loan one.', 'Loan two.', 'Loan three.']);
      const narrowed = await retrieve(parts, { scope, includeDocumentIds: ids.slice(1), excludeDocumentIds: [ids[2]] });
      expect(contentsOf(narrowed.chunks)).deep.equal(['Loan two.']);
    }
  });

  describe('while a service is unavailable', () => {
    const storeDown: Searcher = {
      search: async () => {
        throw appError('service_unavailable', { detail: 'connection refused' });
      },
    };
    const embeddersDown = (...models: string[]): EmbedderFactory => ({
      of: (model) => {
        if (!models.includes(model)) return wordEmbedders.of(model);
        const embed = async () => {
          throw appError('model_unavailable');
        };
        return { model, embed };
      },
    });
    const allDown = embeddersDown('model-a', 'model-b');

    async function found(parts: Parts) {
      const { chunks, degradations } = await retrieve(parts);
      return { texts: contentsOf(chunks).sort(), reasons: degradations.map(({ reason }) => reason).sort() };
    }

    it('finds passages by words, and reports each degradation once', async () => {
      await add({ texts: ['Loan of one model.'] });
      await add({ texts: ['Loan of another.'], model: 'model-b' });
      await add({ texts: ['Loan of other settings.'], model: 'model-b', retrieval: { rrfK: 1 } });
      const texts = ['Loan of another.', 'Loan of one model.', 'Loan of other settings.'];
      const [noEmbedder, noStore] = ['embedder_unavailable', 'vector_store_unavailable'];
      expect(await found({ vectors: storeDown })).deep.equal({ texts, reasons: [noStore] });
      expect(await found({ embedders: allDown })).deep.equal({ texts, reasons: [noEmbedder] });
      const one = { embedders: embeddersDown('model-a'), vectors: storeDown };
      expect(await found(one)).deep.equal({ texts, reasons: [noEmbedder, noStore] });
    });

    it('searches documents by words or by an embedding model that is available, and fails if no document has either', async () => {
      await add({ texts: ['Loan of one model.'], retrieval: { mode: 'vector' } });
      await add({ texts: ['Loan of another.'], model: 'model-b', retrieval: { mode: 'vector' } });
      const reasons = ['embedder_unavailable'];
      const half = { embedders: embeddersDown('model-a') };
      expect(await found(half)).deep.equal({ texts: ['Loan of another.'], reasons });
      for (const none of [{ vectors: storeDown }, { embedders: allDown }, { ...half, vectors: storeDown }]) {
        expect(await appErrorCode(retrieve(none))).equal('service_unavailable');
      }
      await add({ texts: ['Loan by words.'], retrieval: { mode: 'word_match' } });
      expect(await found({ embedders: allDown })).deep.equal({ texts: ['Loan by words.'], reasons });
    });

    it('reports no degradation for documents that the caller cannot read', async () => {
      await add({ texts: ['Loan.'], retrieval: { mode: 'word_match' } });
      await add({ texts: ['Loan.'], acl: ['user:eve'] });
      expect(await found({ vectors: storeDown })).deep.equal({ texts: ['Loan.'], reasons: [] });
    });

    it('stops waiting for a slow service at the timeout', async () => {
      await add({ texts: ['Loan.'] });
      let timeout = new AbortController();
      const timeouts = mock.method(AbortSignal, 'timeout', () => timeout.signal);
      /** The time is over as soon as the slow service has been asked. */
      const untilStopped = (signal: AbortSignal | undefined) =>
        new Promise<never>((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
          timeout.abort();
          timeout = new AbortController();
        });
      const vectors: Searcher = { search: ({ signal }) => untilStopped(signal) };
      const embedders: EmbedderFactory = {
        of: (model) => ({ model, embed: (_texts, options) => untilStopped(options?.signal) }),
      };
      const timeoutMs = 60_000;
      for (const [slow, reason] of [
        [{ vectors }, 'vector_store_unavailable'],
        [{ embedders }, 'embedder_unavailable'],
      ] as const) {
        expect(await found({ ...slow, timeoutMs })).deep.equal({ texts: ['Loan.'], reasons: [reason] });
      }
      for (const { arguments: given } of timeouts.mock.calls) expect(given).deep.equal([timeoutMs]);
      timeouts.mock.restore();
    });

    it('finds passages by vectors when the word search times out, and fails if the documents have only word search', async () => {
      await add({ texts: ['Loan.'] });
      // Only the words have no more time.
      const vectors: Searcher = { search: ({ signal: _, ...query }) => fixture().vectors.search(query) };
      const whileLocked = <Answer>(work: () => Promise<Answer>) =>
        fixture().db.transaction(async (trx) => {
          await trx.raw('lock table document_terms in access exclusive mode');
          return work();
        });
      const answer = await whileLocked(() => found({ vectors, timeoutMs: 200 }));
      expect(answer).deep.equal({ texts: ['Loan.'], reasons: ['word_search_unavailable'] });
      await fixture().db('documents').where({ orgId: organization().orgId }).delete();
      await add({ texts: ['Loan.'], retrieval: { mode: 'word_match' } });
      expect(await whileLocked(() => appErrorCode(retrieve({ timeoutMs: 200 })))).equal('service_unavailable');
    });

    it('fails with the reason that the caller gives when it aborts the search, and returns no partial results', async () => {
      await add({ texts: ['Loan.'] });
      const stopped = new AbortController();
      const vectors: Searcher = {
        search: async ({ signal }) => {
          stopped.abort(appError('interrupted'));
          throw signal?.reason;
        },
      };
      expect(await appErrorCode(retrieve({ vectors }, { signal: stopped.signal }))).equal('interrupted');
    });
  });
});
