import { expect } from 'chai';
import pino from 'pino';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createCitationTracker } from '#src/modules/chat/citations.ts';
import type { Embedder } from '#src/ports/models.ts';
import { collect } from '#test/support/collect.ts';

describe('createCitationTracker', () => {
  const member = { isOrgAdmin: false, teamIds: [], teamAdminOf: [], openTeamIds: [] };
  const actor = { userId: 'ada', orgId: 'org', ...member };
  const chunk = {
    chunkId: 'chunk',
    documentId: 'document',
    documentName: 'Loans',
    pageNumber: 1,
    content: 'A loan is repaid month by month.',
    tokenCount: 8,
    embeddingModel: 'model',
  };

  const analyzeText = createTextAnalyzer();

  function start(embed: Embedder['embed'], stopped: AbortSignal, analyze = analyzeText) {
    const lookedUp: string[] = [];
    const track = createCitationTracker({
      retrieval: {
        stillReadable: async (_actor, chunkIds) => {
          lookedUp.push(...chunkIds);
          return new Set(chunkIds);
        },
      },
      embedders: { of: (model) => ({ model, embed }) },
      vectors: { fetch: async () => new Map() },
      analyze,
      logger: pino({ enabled: false }),
    });
    return { lookedUp, citations: track(actor, [chunk], stopped) };
  }

  async function* stream(text: string) {
    yield text;
  }

  it('reads nothing with the rights of the user once it is stopped', async () => {
    const { citations, lookedUp } = start(async () => [], AbortSignal.abort(new Error('stopped')));
    const errors: unknown[] = [];
    const note = (error: unknown) => errors.push(error);
    await collect(citations.rewrite(stream('Zebras graze yonder [1]. '))).catch(note);
    await citations.sources('A loan is repaid month by month.').catch(note);
    expect(errors.map(String)).deep.equal(['Error: stopped', 'Error: stopped']);
    expect(lookedUp).deep.equal([]);
  });

  it('waits for no embedding once it is stopped', async () => {
    const stop = new AbortController();
    const hang: Embedder['embed'] = (_texts, options) =>
      new Promise((_resolve, reject) => {
        options?.signal?.addEventListener('abort', () => reject(new Error('The call was ended.')));
        stop.abort(new Error('stopped'));
      });
    const { citations } = start(hang, stop.signal);
    const rewritten = collect(citations.rewrite(stream('Zebras graze yonder [1]. ')));
    expect(String(await rewritten.catch((error: unknown) => error))).equal('Error: stopped');
  });

  it('checks a repeated citation of the same statement once', async () => {
    const read: string[] = [];
    const { citations } = start(
      async () => [],
      new AbortController().signal,
      (text) => {
        read.push(text);
        return analyzeText(text);
      },
    );
    const said = `A loan is repaid${' [1]'.repeat(100)}. Month by month it is repaid${' [1]'.repeat(100)}.`;
    expect((await collect(citations.rewrite(stream(said)))).join('')).equal(said);
    expect(read).length(3);
  });

  it('numbers passages that are added while the reply is written, each once', async () => {
    const { citations } = start(async () => [], new AbortController().signal);
    const second = { ...chunk, chunkId: 'second', content: 'Zebras graze on the plains.', embeddingModel: 'other' };
    expect(citations.add([second, chunk])).deep.equal([2, 1]);
    expect(citations.add([second])).deep.equal([2]);
    const reply = 'Zebras graze on the plains [2]. A loan is repaid [1, 3].';
    const rewritten = await collect(citations.rewrite(stream(reply)));
    expect(rewritten.join('')).equal('Zebras graze on the plains [1]. A loan is repaid [2].');
    const sources = await citations.sources(rewritten.join(''));
    expect(sources.citations.map(({ chunkId }) => chunkId)).deep.equal(['second', 'chunk']);
    expect(sources.dropped).deep.equal([{ n: 3, reason: 'out_of_range' }]);
  });
});
