import { expect } from 'chai';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';
import {
  chooseRerankerType,
  keepTopHitsOfGroups,
  orderByRankNumbers,
  orderByScore,
  orderByScoreAndRank,
  type RerankingOptions,
} from '#src/domain/retrieval/fusion-and-reranking.ts';

type Reranking = RagConfig['reranking'];
const on: Reranking = { enabled: true, rerankerType: 'cross_encoder', topK: 2 };
const off: Reranking = { ...on, enabled: false };
const llm: Reranking = { ...on, rerankerType: 'llm', topK: 1 };
const noWish = { isEnabled: null, type: null };
/** Hits, each of a document of its own group. */
const hits = (...settings: Reranking[]) =>
  settings.map((reranking, index) => ({ index, reranking, signature: `group ${index}` }));
const plan = (settings: Reranking[], wish: RerankingOptions) => chooseRerankerType(hits(...settings), wish);

describe('chooseRerankerType', () => {
  it('follows the documents if the chat has no setting', () => {
    expect(plan([], noWish)).equal(null);
    expect(plan([off, off], noWish)).equal(null);
    expect(plan([off, on], noWish)).equal('cross_encoder');
    expect(plan([llm, llm, on], noWish)).equal('llm');
    expect(plan([llm, on], noWish)).equal('cross_encoder');
  });

  it('counts groups, and not the documents or the hits in them', () => {
    const one = [on, on, on].map((reranking) => ({ reranking, signature: 'one' }));
    const others = ['two', 'three'].map((signature) => ({ reranking: llm, signature }));
    expect(chooseRerankerType([...one, ...others], noWish)).equal('llm');
  });

  it('follows the settings of the chat', () => {
    expect(plan([on], { isEnabled: false, type: null })).equal(null);
    expect(plan([off], { isEnabled: true, type: null })).equal('cross_encoder');
    expect(plan([on], { isEnabled: null, type: 'llm' })).equal('llm');
  });

  it('takes the type from all groups if the chat enables reranking', () => {
    const llmIfAsked = { ...llm, enabled: false };
    expect(plan([on, llmIfAsked, llmIfAsked], noWish)).equal('cross_encoder');
    expect(plan([on, llmIfAsked, llmIfAsked], { isEnabled: true, type: null })).equal('llm');
  });
});

describe('keepTopHitsOfGroups', () => {
  const kept = (signatures: string, settings: Reranking[], isEnabled: boolean | null = null) => {
    const ranked = settings.map((reranking, index) => ({ index, reranking, signature: signatures[index] ?? '' }));
    return keepTopHitsOfGroups(ranked, { isEnabled }).map(({ index }) => index);
  };

  it('keeps the best hits of each group', () => {
    expect(kept('aaaaa', [on, llm, on, llm, on])).deep.equal([0, 1, 2]);
    expect(kept('aabba', [on, on, on, on, on])).deep.equal([0, 1, 2, 3]);
  });

  it('keeps all hits of groups without reranking, unless the chat enables it', () => {
    expect(kept('aaaa', [off, off, off, on])).deep.equal([0, 1, 2, 3]);
    expect(kept('aaaa', [off, off, off, on], true)).deep.equal([0, 1, 3]);
  });
});

describe('orderByScore', () => {
  it('ranks the best first and items without a score last', () => {
    expect(orderByScore(['a', 'b', 'c', 'd'], [0.1, 0.9])).deep.equal(['b', 'a', 'c', 'd']);
  });
});

describe('orderByScoreAndRank', () => {
  it('weighs score and position equally, and keeps the order of ties', () => {
    // 1/61 + 1/63, 1/62 + 1/62 and 1/63 + 1/61.
    expect(orderByScoreAndRank(['a', 'b', 'c', 'd'], [0.1, 0.5, 0.9])).deep.equal(['a', 'c', 'b', 'd']);
    expect(orderByScoreAndRank(['a', 'b', 'c'], [0.5, 0.9, 0.1])).deep.equal(['a', 'b', 'c']);
  });
});

describe('orderByRankNumbers', () => {
  it('accepts permutations only', () => {
    expect(orderByRankNumbers(['a', 'b', 'c'], [3, 1, 2])).deep.equal(['c', 'a', 'b']);
    for (const wrong of [[1, 2], [1, 2, 2], [1, 2, 4], [0, 1, 2], [1, 2, 3, 3], []]) {
      expect(orderByRankNumbers(['a', 'b', 'c'], wrong)).equal(null);
    }
  });
});
