import { expect } from 'chai';
import { createPassageRanker } from '#src/modules/retrieval/passage-ranker.ts';
import type { ModelRequest, Reranker } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

const upTo = (length: number) => Array.from({ length }, (_, index) => index + 1);
const allBackwards = upTo(12).reverse();
const tenBackwards = [...upTo(10).reverse(), 11, 12];

describe('the passage ranker', () => {
  type Deployment = { judge?: string; contextWindow?: number | null; reply?: string; isLocal?: boolean };

  /** @returns the ids of the passages in their new order, and how many of them each model was sent */
  async function rankWith(type: 'cross_encoder' | 'llm', deployment: Deployment, count = 12) {
    const { isLocal = false, judge, contextWindow = null, reply = '' } = deployment;
    const reranked: { model: string | null; count: number }[] = [];
    const asked: ModelRequest[] = [];
    const backwards: Reranker = {
      rerank: async ({ model, documents }) => {
        reranked.push({ model, count: documents.length });
        return documents.map((_, index) => index);
      },
    };
    const rank = createPassageRanker({
      spotlight: 'flagged',
      rerankers: { crossEncoder: backwards, chatProvider: backwards },
      chatModel: {
        complete: async (request) => {
          asked.push(request);
          const usage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };
          return { text: reply, model: request.model, usage };
        },
      },
      models: {
        reranker: async (asked) => {
          if (asked === 'cross_encoder') return { model: 'reranker-1', isLocal };
          return judge === undefined ? null : { model: judge, isLocal };
        },
        chatModels: async () => ({ default: 'chat-1', all: ['chat-1'], isComplete: true }),
        find: async () => ({
          ...{ id: 'chat-1', kind: 'chat', isDefault: true, isLocal: false },
          ...{ contextWindow, dimensions: null, rerankingType: null, price: null },
        }),
      },
    });
    const passages = upTo(count).map((id) => ({ id, documentName: 'Doc', pageNumber: 1, content: `passage ${id}` }));
    const ranked = await rank(type, { query: 'q', passages, signal: new AbortController().signal });
    return {
      ids: ranked.map(({ id }) => id),
      reranked,
      asked: asked.map(({ responseSchema }) => responseSchema?.name),
    };
  }

  it('sends all passages to a cross-encoder', async () => {
    const reranked = [{ model: 'reranker-1', count: 12 }];
    expect(await rankWith('cross_encoder', {})).deep.equal({ ids: allBackwards, reranked, asked: [] });
  });

  it("sends only the first passages to a local cross-encoder, and fuses its ranking with the search's", async () => {
    const { ids, reranked } = await rankWith('cross_encoder', { isLocal: true }, 30);
    expect([...ids.slice(0, 4), ...ids.slice(-7)]).deep.equal([1, 24, 2, 23, 13, 25, 26, 27, 28, 29, 30]);
    expect(reranked).deep.equal([{ model: 'reranker-1', count: 24 }]);
  });

  it('sends the first ten passages to the rerank endpoint of the chat provider', async () => {
    const reranked = [{ model: 'first-token-1', count: 10 }];
    const answer = await rankWith('llm', { judge: 'first-token-1' });
    expect(answer).deep.equal({ ids: tenBackwards, reranked, asked: [] });
  });

  it('asks a chat model to rank all passages, or the first ten if its context window is small', async () => {
    for (const [contextWindow, ids] of [
      [32_000, allBackwards],
      [null, allBackwards],
      [8_192, tenBackwards],
    ] as const) {
      const reply = JSON.stringify({ ranking: contextWindow === 8_192 ? ids.slice(0, 10) : ids });
      expect(await rankWith('llm', { contextWindow, reply })).deep.equal({ ids, reranked: [], asked: ['ranking'] });
    }
  });

  it('rejects an invalid ranking', async () => {
    const reply = '{"ranking": [1, 1]}';
    expect(await appErrorCode(rankWith('llm', { reply }))).equal('model_response_invalid');
  });
});
