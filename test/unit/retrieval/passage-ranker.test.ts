import { expect } from 'chai';
import { createPassageRanker } from '#src/modules/retrieval/passage-ranker.ts';
import type { ModelRequest, Reranker } from '#src/ports/models.ts';
import { appErrorCode } from '#test/support/app-error-code.ts';

type Judged = { model: string | null; count: number };

describe('passage ranker', () => {
  const passagesUpTo = (length: number) =>
    Array.from({ length }, (_, index) => {
      return { id: index + 1, documentName: 'Doc', pageNumber: 1, content: `passage ${index + 1}` };
    });

  function create(deployment: { judge?: string; contextWindow?: number | null; reply?: string; isLocal?: boolean }) {
    const { isLocal = false } = deployment;
    const crossEncoded: Judged[] = [];
    const judged: Judged[] = [];
    const asked: ModelRequest[] = [];
    const backwards = (calls: Judged[]): Reranker => ({
      rerank: async ({ model, documents }) => {
        calls.push({ model, count: documents.length });
        return documents.map((_, index) => index);
      },
    });
    const rank = createPassageRanker({
      rerankers: { crossEncoder: backwards(crossEncoded), chatProvider: backwards(judged) },
      chatModel: {
        complete: async (request) => {
          asked.push(request);
          const usage = { inputTokens: 0, cachedInputTokens: 0, completionTokens: 0 };
          return { text: deployment.reply ?? '', model: request.model, usage };
        },
      },
      models: {
        reranker: async (type) => {
          if (type === 'cross_encoder') return { model: 'reranker-1', isLocal };
          return deployment.judge === undefined ? null : { model: deployment.judge, isLocal };
        },
        chatModels: async () => ({ default: 'chat-1', all: ['chat-1'], isComplete: true }),
        find: async () => ({
          ...{ id: 'chat-1', kind: 'chat', isDefault: true, isLocal: false },
          ...{ contextWindow: deployment.contextWindow ?? null, dimensions: null, rerankingType: null, price: null },
        }),
      },
    });
    const { signal } = new AbortController();
    const order = async (type: 'cross_encoder' | 'llm', count = 12) =>
      (await rank(type, { query: 'q', passages: passagesUpTo(count), signal })).map(({ id }) => id);
    return { order, crossEncoded, judged, asked };
  }

  it('sends all passages to the cross-encoder', async () => {
    const { order, crossEncoded } = create({});
    expect(await order('cross_encoder')).deep.equal([12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    expect(crossEncoded).deep.equal([{ model: 'reranker-1', count: 12 }]);
  });

  it('sends only the first passages to a local cross-encoder, and fuses its order with theirs', async () => {
    const { order, crossEncoded } = create({ isLocal: true });
    const ids = await order('cross_encoder', 30);
    expect([...ids.slice(0, 4), ...ids.slice(-7)]).deep.equal([1, 24, 2, 23, 13, 25, 26, 27, 28, 29, 30]);
    expect(crossEncoded).deep.equal([{ model: 'reranker-1', count: 24 }]);
  });

  it('sends the first ten passages to the rerank endpoint of the chat provider', async () => {
    const { order, judged, asked } = create({ judge: 'first-token-1' });
    expect(await order('llm')).deep.equal([10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 11, 12]);
    expect(judged).deep.equal([{ model: 'first-token-1', count: 10 }]);
    expect(asked).deep.equal([]);
  });

  it('asks a chat model with a large context window to rank all passages', async () => {
    const ranking = [12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    for (const contextWindow of [32_000, null]) {
      const { order, asked } = create({ contextWindow, reply: JSON.stringify({ ranking }) });
      expect(await order('llm')).deep.equal(ranking);
      expect(asked[0]?.responseSchema?.name).equal('ranking');
    }
  });

  it('asks a chat model with a small context window to rank the first ten', async () => {
    const reply = '{"ranking": [10, 1, 2, 3, 4, 5, 6, 7, 8, 9]}';
    const { order } = create({ contextWindow: 8_192, reply });
    expect(await order('llm')).deep.equal([10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12]);
  });

  it('rejects an invalid ranking', async () => {
    const { order } = create({ reply: '{"ranking": [1, 1]}' });
    expect(await appErrorCode(order('llm'))).equal('model_response_invalid');
  });
});
