import { expect } from 'chai';
import pino from 'pino';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createCiter } from '#src/modules/chat/citer.ts';
import type { Embedder } from '#src/ports/models.ts';
import { collect } from '#test/support/collect.ts';

describe('the citations of an answer', () => {
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
    const cite = createCiter({
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
    return { lookedUp, citing: cite(actor, [chunk], stopped) };
  }

  async function* say(text: string) {
    yield text;
  }

  it('are not looked up with the rights of who may be gone once it is stopped', async () => {
    const { citing, lookedUp } = start(async () => [], AbortSignal.abort(new Error('He is gone.')));
    const errors: unknown[] = [];
    const note = (error: unknown) => errors.push(error);
    await collect(citing.rewrite(say('Zebras graze yonder [1]. '))).catch(note);
    await citing.sources('A loan is repaid month by month.').catch(note);
    expect(errors.map(String)).deep.equal(['Error: He is gone.', 'Error: He is gone.']);
    expect(lookedUp).deep.equal([]);
  });

  it('wait for no embedding once it is stopped', async () => {
    const stop = new AbortController();
    const hang: Embedder['embed'] = (_texts, options) =>
      new Promise((_resolve, reject) => {
        options?.signal?.addEventListener('abort', () => reject(new Error('The call was ended.')));
        stop.abort(new Error('He is gone.'));
      });
    const { citing } = start(hang, stop.signal);
    const rewritten = collect(citing.rewrite(say('Zebras graze yonder [1]. ')));
    expect(String(await rewritten.catch((error: unknown) => error))).equal('Error: He is gone.');
  });

  it('are checked once where they repeat themselves', async () => {
    const read: string[] = [];
    const { citing } = start(
      async () => [],
      new AbortController().signal,
      (text) => {
        read.push(text);
        return analyzeText(text);
      },
    );
    const said = `A loan is repaid${' [1]'.repeat(100)}. Month by month it is repaid${' [1]'.repeat(100)}.`;
    expect((await collect(citing.rewrite(say(said)))).join('')).equal(said);
    expect(read).length(3);
  });

  it('take in passages that come up meanwhile, each under one number', async () => {
    const { citing } = start(async () => [], new AbortController().signal);
    const second = { ...chunk, chunkId: 'second', content: 'Zebras graze on the plains.', embeddingModel: 'other' };
    expect(citing.add([second, chunk])).deep.equal([2, 1]);
    expect(citing.add([second])).deep.equal([2]);
    const rewritten = await collect(citing.rewrite(say('Zebras graze on the plains [2]. A loan is repaid [1, 3].')));
    expect(rewritten.join('')).equal('Zebras graze on the plains [1]. A loan is repaid [2].');
    const { citations, dropped } = await citing.sources(rewritten.join(''));
    expect(citations.map(({ chunkId }) => chunkId)).deep.equal(['second', 'chunk']);
    expect(dropped).deep.equal([{ n: 3, reason: 'out_of_range' }]);
  });
});
