import { expect } from 'chai';
import pino from 'pino';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { createCiter } from '#src/modules/chat/citer.ts';
import type { Embedder } from '#src/ports/embedder.ts';
import { collect } from '#test/support/collect.ts';

describe('the citations of an answer that is stopped', () => {
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

  function start(embed: Embedder['embed'], stopped: AbortSignal) {
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
      analyze: createTextAnalyzer(),
      logger: pino({ enabled: false }),
    });
    return { lookedUp, citing: cite(actor, [chunk], stopped) };
  }

  async function* say(text: string) {
    yield text;
  }

  it('are not looked up with the rights of who may be gone', async () => {
    const { citing, lookedUp } = start(async () => [], AbortSignal.abort(new Error('He is gone.')));
    const errors: unknown[] = [];
    const note = (error: unknown) => errors.push(error);
    await collect(citing.rewrite(say('Zebras graze yonder [1]. '))).catch(note);
    await citing.sources('A loan is repaid month by month.').catch(note);
    expect(errors.map(String)).deep.equal(['Error: He is gone.', 'Error: He is gone.']);
    expect(lookedUp).deep.equal([]);
  });

  it('wait for no embedding any more', async () => {
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
});
