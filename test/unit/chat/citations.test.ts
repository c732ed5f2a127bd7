import { Readable } from 'node:stream';
import { expect } from 'chai';
import pino from 'pino';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createCitationTracker } from '#src/modules/chat/citations.ts';
import type { Embedder } from '#src/ports/models.ts';
import { collect } from '#test/support/collect.ts';
import { anActor } from '#test/support/served-routes.ts';

describe('the citation tracker of a reply', () => {
  const place = { chunkId: 'chunk', documentId: 'document', documentName: 'Loans', pageNumber: 1 };
  const chunk = {
    ...place,
    content: 'A loan has a rate. A loan is repaid month by month.',
    tokenCount: 8,
    embeddingModel: 'model',
  };
  const noEmbedding: Embedder['embed'] = async () => [];

  function start(embed = noEmbedding, stopped = new AbortController().signal, unrelated = 0) {
    const lookedUp: string[] = [];
    const track = createCitationTracker({
      retrieval: {
        stillReadable: async (_actor, chunkIds) => {
          lookedUp.push(...chunkIds);
          return new Set(chunkIds);
        },
        findPlaces: async () => {
          const chunked = { chunkKind: 'text', contextualText: 'Old loans › Rates (page 2)', chunkedName: 'Old loans' };
          return [{ chunkId: 'chunk', contentOffset: 100, pageMap: [0, 90, 120], ...chunked }];
        },
      },
      models: { unrelatedSimilarity: async () => unrelated },
      embedders: { of: (model) => ({ model, embed }) },
      vectors: { fetch: async () => new Map([[chunk.chunkId, Float32Array.of(1, 0)]]) },
      analyze: createTextAnalyzer(),
      logger: pino({ enabled: false }),
    });
    const citations = track(anActor(), [chunk], stopped);
    const rewrite = async (text: string) => (await collect(citations.rewrite(Readable.from([text])))).join('');
    return { lookedUp, citations, rewrite };
  }

  it('waits for no embedding and reads no documents after the reply is stopped', async () => {
    const { citations, rewrite, lookedUp } = start(noEmbedding, AbortSignal.abort(new Error('stopped')));
    for (const outcome of [rewrite('Zebras graze yonder [1]. '), citations.sources(chunk.content)]) {
      expect(String(await outcome.catch((error: unknown) => error))).equal('Error: stopped');
    }
    expect(lookedUp).deep.equal([]);

    const stop = new AbortController();
    const hang: Embedder['embed'] = (_texts, options) =>
      new Promise((_resolve, reject) => {
        options?.signal?.addEventListener('abort', () => reject(new Error('The call was ended.')));
        stop.abort(new Error('stopped'));
      });
    const waiting = start(hang, stop.signal).rewrite('Zebras graze yonder [1]. ');
    expect(String(await waiting.catch((error: unknown) => error))).equal('Error: stopped');
  });

  it('says of a citation which sentence supports the statement, and on which page and under which heading it stands', async () => {
    const { citations, rewrite } = start();
    await rewrite('The bank is repaid each month [1].');
    const place = { documentName: 'Loans', pageNumber: 2, contentOffset: 119, heading: 'Rates' };
    const quoted = { ...place, quote: 'A loan is repaid month by month.' };
    const expected = [{ chunkId: 'chunk', documentId: 'document', ...quoted }];
    expect((await citations.sources('The bank is repaid each month [1].')).citations).deep.equal(expected);
  });

  it('keeps a citation whose similarity is high enough above that of unrelated texts', async () => {
    for (const [cosine, unrelated, isKept] of [
      [0.4, 0, true],
      [0.3, 0, false],
      [0.8, 0.75, false],
      [0.9, 0.75, true],
    ] as const) {
      const embed = async () => [Float32Array.of(cosine, Math.sqrt(1 - cosine ** 2))];
      const rewritten = await start(embed, undefined, unrelated).rewrite('Zebras graze yonder [1].');
      expect(rewritten.includes('[1]'), `${cosine} above ${unrelated}`).equal(isKept);
    }
  });

  it('leaves the text unchanged if a statement repeats one citation many times', async () => {
    const said = `A loan is repaid${' [1]'.repeat(100)}. Month by month it is repaid${' [1]'.repeat(100)}.`;
    expect(await start().rewrite(said)).equal(said);
  });
});
