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

type Searcher = Pick<VectorStore, 'search'>;

describe('retrieval while a service is unavailable', () => {
  const { fixture, organization, add } = useRetrievalFixture();

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

  const ask = (parts: Parameters<RetrievalFixture['createRetrieval']>[0], options = {}) =>
    fixture()
      .createRetrieval(parts)
      .retrieve(adaOf(organization().orgId), { ...question('loan'), ...options });
  async function found(parts: Parameters<RetrievalFixture['createRetrieval']>[0]) {
    const { chunks, degradations } = await ask(parts);
    const texts = chunks.map(({ content }) => content).sort();
    return { texts, reasons: degradations.map(({ reason }) => reason).sort() };
  }

  it('answers by words, and reports each degradation once', async () => {
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

  it('answers from documents whose model is available or that are found by words, and else fails', async () => {
    await add({ texts: ['Loan of one model.'], retrieval: { mode: 'vector' } });
    await add({ texts: ['Loan of another.'], model: 'model-b', retrieval: { mode: 'vector' } });
    const reasons = ['embedder_unavailable'];
    const half = { embedders: embeddersDown('model-a') };
    expect(await found(half)).deep.equal({ texts: ['Loan of another.'], reasons });
    for (const none of [{ vectors: storeDown }, { embedders: allDown }, { ...half, vectors: storeDown }]) {
      expect(await appErrorCode(ask(none))).equal('service_unavailable');
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

  it('answers by vectors when the word search times out, and fails when there is no other search', async () => {
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
    expect(await whileLocked(() => appErrorCode(ask({ timeoutMs: 200 })))).equal('service_unavailable');
  });

  it('rejects with the abort reason instead of returning a partial answer', async () => {
    await add({ texts: ['Loan.'] });
    const stopped = new AbortController();
    const vectors: Searcher = {
      search: async ({ signal }) => {
        stopped.abort(appError('interrupted'));
        throw signal?.reason;
      },
    };
    expect(await appErrorCode(ask({ vectors }, { signal: stopped.signal }))).equal('interrupted');
  });
});
