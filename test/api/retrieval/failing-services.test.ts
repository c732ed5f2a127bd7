import { mock } from 'node:test';
import { expect } from 'chai';
import { appError } from '#src/errors.ts';
import type { EmbedderFactory } from '#src/ports/models.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  adaOf,
  question,
  type RetrievalFixture,
  useRetrievalFixture,
  wordEmbedders,
} from '#test/support/retrieval-fixture.ts';

describe('retrieval while a service is unavailable', () => {
  const { fixture, organization, add } = useRetrievalFixture();

  const storeDown: Pick<VectorStore, 'search'> = {
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

  const ask = (parts: Parameters<RetrievalFixture['createRetrieval']>[0]) =>
    fixture().createRetrieval(parts).retrieve(adaOf(organization().orgId), question('loan'));
  async function found(parts: Parameters<RetrievalFixture['createRetrieval']>[0]) {
    const { chunks, degradations } = await ask(parts);
    return {
      texts: chunks.map(({ content }) => content).sort(),
      reasons: degradations.map(({ reason }) => reason).sort(),
    };
  }

  it('answers by words, and reports each degradation once', async () => {
    await add({ texts: ['Loan of one model.'] });
    await add({ texts: ['Loan of another.'], model: 'model-b' });
    await add({ texts: ['Loan of other settings.'], model: 'model-b', retrieval: { rrfK: 1 } });
    const texts = ['Loan of another.', 'Loan of one model.', 'Loan of other settings.'];
    expect(await found({ vectors: storeDown })).deep.equal({ texts, reasons: ['vector_store_unavailable'] });
    const embedders = embeddersDown('model-a', 'model-b');
    expect(await found({ embedders })).deep.equal({ texts, reasons: ['embedder_unavailable'] });
    expect(await found({ embedders: embeddersDown('model-a'), vectors: storeDown })).deep.equal({
      texts,
      reasons: ['embedder_unavailable', 'vector_store_unavailable'],
    });
  });

  it('answers from the groups whose embedding model is available', async () => {
    await add({ texts: ['Loan of one model.'], retrieval: { mode: 'vector' } });
    await add({ texts: ['Loan of another.'], model: 'model-b', retrieval: { mode: 'vector' } });
    expect(await found({ embedders: embeddersDown('model-a') })).deep.equal({
      texts: ['Loan of another.'],
      reasons: ['embedder_unavailable'],
    });
  });

  it('answers from documents with word search, although others are configured for vectors only', async () => {
    await add({ texts: ['Loan by meaning.'], retrieval: { mode: 'vector' } });
    await add({ texts: ['Loan by words.'], retrieval: { mode: 'word_match' } });
    const reasons = ['vector_store_unavailable'];
    expect(await found({ vectors: storeDown })).deep.equal({ texts: ['Loan by words.'], reasons });
  });

  it('throws service_unavailable when all documents are configured for vectors only', async () => {
    await add({ texts: ['Loan of one model.'], retrieval: { mode: 'vector' } });
    await add({ texts: ['Loan of another.'], model: 'model-b', retrieval: { mode: 'vector' } });
    expect(await appErrorCode(ask({ vectors: storeDown }))).equal('service_unavailable');
    expect(await appErrorCode(ask({ embedders: embeddersDown('model-a', 'model-b') }))).equal('service_unavailable');
    expect(await appErrorCode(ask({ embedders: embeddersDown('model-a'), vectors: storeDown }))).equal(
      'service_unavailable',
    );
  });

  it('stops waiting for a slow service at the timeout', async () => {
    await add({ texts: ['Loan.'] });
    let timeout = new AbortController();
    const timeouts = mock.method(AbortSignal, 'timeout', () => timeout.signal);
    /** The time is over as soon as the slow one has been asked. */
    const untilStopped = (signal: AbortSignal | undefined) =>
      new Promise<never>((_resolve, reject) => {
        signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
        timeout.abort();
        timeout = new AbortController();
      });
    const slowStore: Pick<VectorStore, 'search'> = { search: ({ signal }) => untilStopped(signal) };
    const slowEmbedders: EmbedderFactory = {
      of: (model) => ({ model, embed: (_texts, options) => untilStopped(options?.signal) }),
    };
    const timeoutMs = 60_000;
    expect(await found({ vectors: slowStore, timeoutMs })).deep.equal({
      texts: ['Loan.'],
      reasons: ['vector_store_unavailable'],
    });
    expect(await found({ embedders: slowEmbedders, timeoutMs })).deep.equal({
      texts: ['Loan.'],
      reasons: ['embedder_unavailable'],
    });
    expect(timeouts.mock.calls.map(({ arguments: given }) => given)).deep.equal([
      [timeoutMs],
      [timeoutMs],
      [timeoutMs],
    ]);
    timeouts.mock.restore();
  });

  it('answers by vectors when the word search times out, and throws when there is no other search', async () => {
    await add({ texts: ['Loan.'] });
    await fixture().db.transaction(async (trx) => {
      await trx.raw('lock table document_terms in access exclusive mode');
      // Only the words have no more time.
      const vectors: Pick<VectorStore, 'search'> = {
        search: ({ signal: _, ...query }) => fixture().vectors.search(query),
      };
      const parts = { vectors, timeoutMs: 200 };
      expect(await found(parts)).deep.equal({ texts: ['Loan.'], reasons: ['word_search_unavailable'] });
      await trx('documents').where({ orgId: organization().orgId }).delete();
    });
    await add({ texts: ['Loan.'], retrieval: { mode: 'word_match' } });
    await fixture().db.transaction(async (trx) => {
      await trx.raw('lock table document_terms in access exclusive mode');
      expect(await appErrorCode(ask({ timeoutMs: 200 }))).equal('service_unavailable');
    });
  });

  it('reports no degradation for documents that the caller cannot read', async () => {
    await add({ texts: ['Loan.'], retrieval: { mode: 'word_match' } });
    await add({ texts: ['Loan.'], acl: ['user:eve'] });
    expect(await found({ vectors: storeDown })).deep.equal({ texts: ['Loan.'], reasons: [] });
  });

  it('rejects with the abort reason instead of returning a partial answer', async () => {
    await add({ texts: ['Loan.'] });
    const stopped = new AbortController();
    const vectors: Pick<VectorStore, 'search'> = {
      search: async ({ signal }) => {
        stopped.abort(appError('interrupted'));
        throw signal?.reason;
      },
    };
    const retrieval = fixture().createRetrieval({ vectors });
    const asked = retrieval.retrieve(adaOf(organization().orgId), { ...question('loan'), signal: stopped.signal });
    expect(await appErrorCode(asked)).equal('interrupted');
  });
});
