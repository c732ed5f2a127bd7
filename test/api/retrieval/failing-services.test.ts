import { mock } from 'node:test';
import { expect } from 'chai';
import { appError } from '#src/errors.ts';
import type { Embedders } from '#src/ports/models.ts';
import type { VectorStore } from '#src/ports/vector-store.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';
import {
  adaOf,
  question,
  type RetrievalFixture,
  useRetrievalFixture,
  wordEmbedders,
} from '#test/support/retrieval-fixture.ts';

describe('a question while a service is down', () => {
  const { fixture, organization, add } = useRetrievalFixture();

  const storeDown: Pick<VectorStore, 'search'> = {
    search: async () => {
      throw appError('service_unavailable', { detail: 'connection refused' });
    },
  };
  const embeddersDown = (...models: string[]): Embedders => ({
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

  it('is answered by words, and says once what is missing', async () => {
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

  it('is answered by the groups whose model is there', async () => {
    await add({ texts: ['Loan of one model.'], retrieval: { mode: 'vector' } });
    await add({ texts: ['Loan of another.'], model: 'model-b', retrieval: { mode: 'vector' } });
    expect(await found({ embedders: embeddersDown('model-a') })).deep.equal({
      texts: ['Loan of another.'],
      reasons: ['embedder_unavailable'],
    });
  });

  it('is answered by words where there are any, though some documents are found by vectors only', async () => {
    await add({ texts: ['Loan by meaning.'], retrieval: { mode: 'vector' } });
    await add({ texts: ['Loan by words.'], retrieval: { mode: 'word_match' } });
    const reasons = ['vector_store_unavailable'];
    expect(await found({ vectors: storeDown })).deep.equal({ texts: ['Loan by words.'], reasons });
  });

  it('is refused when all documents are found by vectors only', async () => {
    await add({ texts: ['Loan of one model.'], retrieval: { mode: 'vector' } });
    await add({ texts: ['Loan of another.'], model: 'model-b', retrieval: { mode: 'vector' } });
    expect(await appErrorCode(ask({ vectors: storeDown }))).equal('service_unavailable');
    expect(await appErrorCode(ask({ embedders: embeddersDown('model-a', 'model-b') }))).equal('service_unavailable');
    expect(await appErrorCode(ask({ embedders: embeddersDown('model-a'), vectors: storeDown }))).equal(
      'service_unavailable',
    );
  });

  it('waits for a slow one as long as a person would, and no longer', async () => {
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
    const slowEmbedders: Embedders = {
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

  it('goes on by vectors when the words take longer, and is refused when there are only words', async () => {
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

  it('hears nothing of documents that it may not find', async () => {
    await add({ texts: ['Loan.'], retrieval: { mode: 'word_match' } });
    await add({ texts: ['Loan.'], acl: ['user:eve'] });
    expect(await found({ vectors: storeDown })).deep.equal({ texts: ['Loan.'], reasons: [] });
  });

  it('ends with what stopped it, and not with less of an answer', async () => {
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
