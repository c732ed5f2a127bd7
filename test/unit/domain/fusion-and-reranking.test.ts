import { expect } from 'chai';
import fc from 'fast-check';
import type { RagConfig } from '#src/domain/documents/rag-config.ts';
import {
  chooseRerankerType,
  keepTopHitsOfGroups,
  mergeRetrievalGroups,
  orderByRankNumbers,
  orderByScore,
  orderByScoreAndRank,
  type RetrievalHitsOfGroup,
} from '#src/domain/retrieval/fusion-and-reranking.ts';

type Hit = { id: string; score: number };
const byScoreThenId = (a: Hit, b: Hit) => b.score - a.score || (a.id < b.id ? -1 : 1);
const order = (hits: readonly { id: string }[]) => hits.map(({ id }) => id);

describe('merging the hits of document groups with different settings', () => {
  const ids = 'abcdefghijklmnop'.split('');
  /** Few different scores, so that there are ties. */
  const hitsOf = (names: readonly string[]) =>
    fc
      .shuffledSubarray([...names])
      .chain((found) => fc.tuple(...found.map((id) => fc.integer({ min: 0, max: 6 }).map((score) => ({ id, score })))));
  const modes: string[][] = [['words'], ['model-a'], ['model-b'], ['words', 'model-a'], ['words', 'model-b']];
  const anyRrfK = fc.integer({ min: 1, max: 100 });
  const groupOf = (names: readonly string[]): fc.Arbitrary<RetrievalHitsOfGroup> =>
    fc
      .tuple(anyRrfK, fc.constantFrom(...modes))
      .chain(([rrfK, legs]) =>
        fc
          .tuple(fc.constantFrom(1, 0.005), ...legs.map((leg) => hitsOf(names).map((hits) => [leg, hits] as const)))
          .map(([weight, ...found]) => ({ rrfK, legs: new Map(found), weights: new Map([['model-a', weight]]) })),
      );
  const threeGroups = fc.tuple(groupOf(ids.slice(0, 5)), groupOf(ids.slice(5, 10)), groupOf(ids.slice(10)));

  const weightOf = (group: RetrievalHitsOfGroup, leg: string) => group.weights?.get(leg) ?? 1;

  /** Reciprocal rank fusion by its definition: the rank of a hit is its rank among all hits of its leg. */
  function reciprocalRanks(group: RetrievalHitsOfGroup, rrfK: number, groups: readonly RetrievalHitsOfGroup[]) {
    const rankIn = (leg: string, id: string) =>
      order(groups.flatMap(({ legs }) => legs.get(leg) ?? []).sort(byScoreThenId)).indexOf(id) + 1;
    const scoreOf = (id: string) =>
      [...group.legs]
        .filter(([, hits]) => order(hits).includes(id))
        .reduce((sum, [leg]) => sum + weightOf(group, leg) / (rrfK + rankIn(leg, id)), 0);
    const found = new Set([...group.legs.values()].flatMap(order));
    return Array.from(found, (id) => ({ id, score: scoreOf(id) })).sort(byScoreThenId);
  }

  it('keeps the order of each group, gives its highest score to its first hit and so on, and sorts by score', () => {
    fc.assert(
      fc.property(threeGroups, fc.integer({ min: 1, max: 3 }), (three, count) => {
        const groups = three.slice(0, count);
        const merged = mergeRetrievalGroups(groups);
        expect(merged).deep.equal([...merged].sort((a, b) => b.score - a.score));
        expect(mergeRetrievalGroups(groups.toReversed())).deep.equal(merged);
        const scores = new Map(merged.map(({ id, score }) => [id, score]));
        for (const group of groups) {
          const own = order(reciprocalRanks(group, group.rrfK, groups));
          expect(order(merged).filter((id) => own.includes(id))).deep.equal(own);
          const weights = Array.from(group.legs.keys(), (leg) => weightOf(group, leg));
          const scale = 61 / weights.reduce((sum, weight) => sum + weight, 0);
          const normalized = reciprocalRanks(group, 60, groups).map(({ score }) => scale * score);
          for (const [index, id] of own.entries()) {
            expect(scores.get(id)).closeTo(normalized[index] ?? Number.NaN, 1e-12);
          }
        }
      }),
    );
  });

  it('keeps the best fifty hits', () => {
    const many = Array.from({ length: 120 }, (_, index) => ({ id: `${index}`.padStart(3, '0'), score: -index }));
    const halves = [many.slice(0, 60), many.slice(60)].map((hits) => ({ rrfK: 60, legs: new Map([['words', hits]]) }));
    expect(order(mergeRetrievalGroups(halves))).deep.equal(order(many.slice(0, 50)));
  });
});

describe('reranking', () => {
  type Reranking = RagConfig['reranking'];
  const on: Reranking = { enabled: true, rerankerType: 'cross_encoder', topK: 2 };
  const off: Reranking = { ...on, enabled: false };
  const llm: Reranking = { ...on, rerankerType: 'llm', topK: 1 };
  const llmOff: Reranking = { ...llm, enabled: false };

  it('is enabled by the chat, or else by the majority of its document groups', () => {
    for (const [settings, isEnabled, type, planned] of [
      [[], null, null, null],
      [[off, off], null, null, null],
      [[off, on], null, null, 'cross_encoder'],
      [[llm, llm, on], null, null, 'llm'],
      [[llm, on], null, null, 'cross_encoder'],
      [[on], false, null, null],
      [[off], true, null, 'cross_encoder'],
      [[on], null, 'llm', 'llm'],
      // The type comes from all groups if the chat enables reranking.
      [[on, llmOff, llmOff], null, null, 'cross_encoder'],
      [[on, llmOff, llmOff], true, null, 'llm'],
    ] as const) {
      const hits = settings.map((reranking, index) => ({ reranking, signature: `group ${index}` }));
      expect(chooseRerankerType(hits, { isEnabled, type })).equal(planned);
    }
    const sameGroup = [on, on, on].map((reranking) => ({ reranking, signature: 'one' }));
    const others = ['two', 'three'].map((signature) => ({ reranking: llm, signature }));
    expect(chooseRerankerType([...sameGroup, ...others], { isEnabled: null, type: null })).equal('llm');
  });

  it('keeps only the best hits of a group, or all hits if neither the group nor the chat enables reranking', () => {
    for (const [signatures, settings, isEnabled, kept] of [
      ['aaaaa', [on, llm, on, llm, on], null, [0, 1, 2]],
      ['aabba', [on, on, on, on, on], null, [0, 1, 2, 3]],
      ['aaaa', [off, off, off, on], null, [0, 1, 2, 3]],
      ['aaaa', [off, off, off, on], true, [0, 1, 3]],
    ] as const) {
      const ranked = settings.map((reranking, index) => ({ index, reranking, signature: signatures[index] ?? '' }));
      expect(keepTopHitsOfGroups(ranked, { isEnabled }).map(({ index }) => index)).deep.equal(kept);
    }
  });

  it('can order hits by score, by score and previous rank, or by ranks of a model if it ranks each hit once', () => {
    const [abc, abcd] = [['a', 'b', 'c'], 'abcd'.split('')];
    expect(orderByScore(abcd, [0.1, 0.9]).join('')).equal('bacd');
    // 1/61 + 1/63, 1/62 + 1/62 and 1/63 + 1/61: ties keep their order.
    expect(orderByScoreAndRank(abcd, [0.1, 0.5, 0.9]).join('')).equal('acbd');
    expect(orderByScoreAndRank(abc, [0.5, 0.9, 0.1]).join('')).equal('abc');
    expect(orderByRankNumbers(abc, [3, 1, 2])?.join('')).equal('cab');
    for (const wrong of [[1, 2], [1, 2, 2], [1, 2, 4], [0, 1, 2], [1, 2, 3, 3], [1, 2, 3, 4], []]) {
      expect(orderByRankNumbers(abc, wrong)).equal(null);
    }
  });
});
