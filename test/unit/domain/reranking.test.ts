import { expect } from 'chai';
import type { RagConfig } from '#src/domain/rag-config.ts';
import { byRanking, byScore, keepTopK, planReranking } from '#src/domain/reranking.ts';

type Reranking = RagConfig['reranking'];
const on: Reranking = { enabled: true, rerankerType: 'cross_encoder', topK: 2 };
const off: Reranking = { ...on, enabled: false };
const llm: Reranking = { ...on, rerankerType: 'llm', topK: 1 };
const noWish = { isEnabled: null, type: null };

describe('planReranking', () => {
  it('follows the documents when the chat says nothing', () => {
    expect(planReranking([off, off], noWish)).equal(null);
    expect(planReranking([off, on], noWish)).equal('cross_encoder');
    expect(planReranking([llm, llm, on], noWish)).equal('llm');
    expect(planReranking([llm, on], noWish)).equal('cross_encoder');
  });

  it('follows the chat when it says something', () => {
    expect(planReranking([on], { isEnabled: false, type: null })).equal(null);
    expect(planReranking([off], { isEnabled: true, type: null })).equal('cross_encoder');
    expect(planReranking([on], { isEnabled: null, type: 'llm' })).equal('llm');
  });
});

describe('keepTopK', () => {
  const chunks = (...settings: Reranking[]) => settings.map((reranking, index) => ({ index, reranking }));
  const kept = (settings: Reranking[], isEnabled: boolean | null = null) =>
    keepTopK(chunks(...settings), { isEnabled }).map(({ index }) => index);

  it('leaves each group its best', () => {
    expect(kept([on, llm, on, llm, on])).deep.equal([0, 1, 2]);
  });

  it('leaves groups alone that do not rerank, unless the chat says so', () => {
    expect(kept([off, off, off, on])).deep.equal([0, 1, 2, 3]);
    expect(kept([off, off, off, on], true)).deep.equal([0, 1, 3]);
  });
});

describe('byScore', () => {
  it('puts the best first and what has no score behind', () => {
    expect(byScore(['a', 'b', 'c', 'd'], [0.1, 0.9])).deep.equal(['b', 'a', 'c', 'd']);
  });
});

describe('byRanking', () => {
  it('takes a permutation and nothing else', () => {
    expect(byRanking(['a', 'b', 'c'], [3, 1, 2])).deep.equal(['c', 'a', 'b']);
    for (const wrong of [[1, 2], [1, 2, 2], [1, 2, 4], [0, 1, 2], [1, 2, 3, 3], []]) {
      expect(byRanking(['a', 'b', 'c'], wrong)).equal(null);
    }
  });
});
