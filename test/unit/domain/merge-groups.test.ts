import { expect } from 'chai';
import fc from 'fast-check';
import {
  compareByScoreThenId,
  mergeRetrievalGroups,
  type RetrievalHit,
  type RetrievalHitsOfGroup,
} from '#src/domain/retrieval/fusion-and-reranking.ts';

const ids = 'abcdefghijklmnop'.split('');
const modes: string[][] = [['words'], ['model-a'], ['model-b'], ['words', 'model-a'], ['words', 'model-b']];

/** Few different scores, so that there are ties. */
const hitsOf = (names: readonly string[]): fc.Arbitrary<RetrievalHit[]> =>
  fc
    .shuffledSubarray([...names])
    .chain((found) => fc.tuple(...found.map((id) => fc.integer({ min: 0, max: 6 }).map((score) => ({ id, score })))));

const groupOf = (names: readonly string[]): fc.Arbitrary<RetrievalHitsOfGroup> =>
  fc.tuple(fc.integer({ min: 1, max: 100 }), fc.constantFrom(...modes)).chain(([rrfK, legs]) =>
    fc.tuple(...legs.map((leg) => hitsOf(names).map((hits) => [leg, hits] as const))).map((found) => {
      return { rrfK, legs: new Map(found) };
    }),
  );

const threeGroups = fc.tuple(groupOf(ids.slice(0, 5)), groupOf(ids.slice(5, 10)), groupOf(ids.slice(10)));
const order = (hits: readonly { id: string }[]) => hits.map(({ id }) => id);

/** The rule by its words, without a thought of speed: the rank of a hit among all hits of its leg. */
function rankIn(leg: string, id: string, groups: readonly RetrievalHitsOfGroup[]): number {
  const all = groups.flatMap((group) => group.legs.get(leg) ?? []);
  return order([...all].sort(compareByScoreThenId)).indexOf(id) + 1;
}

function reciprocalRanks(group: RetrievalHitsOfGroup, rrfK: number, groups: readonly RetrievalHitsOfGroup[]) {
  const found = new Set([...group.legs.values()].flatMap(order));
  const score = (id: string) =>
    [...group.legs].reduce(
      (sum, [leg, hits]) => sum + (order(hits).includes(id) ? 1 / (rrfK + rankIn(leg, id, groups)) : 0),
      0,
    );
  return Array.from(found, (id) => ({ id, score: score(id) })).sort(compareByScoreThenId);
}

describe('merging groups of different settings', () => {
  it('gives the i-th hit of each own order the i-th largest score of its group', () => {
    fc.assert(
      fc.property(threeGroups, (groups) => {
        const scores = new Map(mergeRetrievalGroups(groups).map(({ id, score }) => [id, score]));
        for (const group of groups) {
          const own = reciprocalRanks(group, group.rrfK, groups);
          const normalized = reciprocalRanks(group, 60, groups).map(({ score }) => (61 / group.legs.size) * score);
          for (const [index, { id }] of own.entries()) {
            expect(scores.get(id)).closeTo(normalized[index] ?? Number.NaN, 1e-12);
          }
        }
      }),
    );
  });

  it('ranks the best first and keeps the order within each group', () => {
    fc.assert(
      fc.property(threeGroups, (groups) => {
        const merged = mergeRetrievalGroups(groups);
        expect(merged).deep.equal([...merged].sort((a, b) => b.score - a.score));
        for (const group of groups) {
          const own = order(reciprocalRanks(group, group.rrfK, groups));
          expect(order(merged).filter((id) => own.includes(id))).deep.equal(own);
        }
      }),
    );
  });

  it('equals plain fusion for a single group', () => {
    fc.assert(
      fc.property(groupOf(ids), (only) => {
        expect(order(mergeRetrievalGroups([only]))).deep.equal(order(reciprocalRanks(only, only.rrfK, [only])));
      }),
    );
  });

  it('counts ranks from 1, adds nothing for a leg that lacks the hit, and orders ties by id', () => {
    const hits = (...found: string[]) => found.map((id, index) => ({ id, score: -index }));
    const merged = mergeRetrievalGroups([
      {
        rrfK: 60,
        legs: new Map([
          ['words', hits('a', 'b')],
          ['model-a', hits('b')],
        ]),
      },
    ]);
    expect(merged).deep.equal([
      { id: 'b', score: (61 / 2) * (1 / 62 + 1 / 61) },
      { id: 'a', score: (61 / 2) * (1 / 61) },
    ]);
    const legs = new Map([
      ['words', hits('b')],
      ['model-a', hits('a')],
    ]);
    expect(order(mergeRetrievalGroups([{ rrfK: 60, legs }]))).deep.equal(['a', 'b']);
  });

  it('gives the first of all legs that a group has the same score, be it one or two', () => {
    const hit = (id: string) => [{ id, score: 1 }];
    const groups = [
      { rrfK: 1, legs: new Map([['words', hit('a')]]) },
      { rrfK: 60, legs: new Map([['model-a', hit('b')]]) },
    ];
    expect(mergeRetrievalGroups(groups)).deep.equal([
      { id: 'a', score: 1 },
      { id: 'b', score: 1 },
    ]);
    const both = new Map(['words', 'model-a'].map((leg) => [leg, hit('c')]));
    expect(mergeRetrievalGroups([{ rrfK: 9, legs: both }])[0]?.score).closeTo(1, 1e-12);
  });

  it('does not depend on the order in which groups come', () => {
    fc.assert(
      fc.property(threeGroups, ([a, b, c]) => {
        expect(mergeRetrievalGroups([c, a, b])).deep.equal(mergeRetrievalGroups([a, b, c]));
      }),
    );
  });

  it("keeps the other groups' order when one document gets another rrf_k", () => {
    const rrfK = fc.integer({ min: 1, max: 100 });
    fc.assert(
      fc.property(threeGroups, fc.constantFrom(...ids.slice(0, 5)), rrfK, ([a, b, c], moved, other) => {
        const split = (isMoved: boolean) =>
          new Map([...a.legs].map(([leg, hits]) => [leg, hits.filter(({ id }) => (id === moved) === isMoved)]));
        const after = [{ ...a, legs: split(false) }, { rrfK: other, legs: split(true) }, b, c];
        const others = (groups: RetrievalHitsOfGroup[]) =>
          order(mergeRetrievalGroups(groups)).filter((id) => id >= 'f');
        expect(others(after)).deep.equal(others([a, b, c]));
      }),
    );
  });

  it('gives a small group no rank of its own', () => {
    const words = (...hits: [string, number][]) => new Map([['words', hits.map(([id, score]) => ({ id, score }))]]);
    const large = { rrfK: 60, legs: words(['a', 9], ['b', 8]) };
    const small = { rrfK: 60, legs: words(['z', 1]) };
    expect(order(mergeRetrievalGroups([small, large]))).deep.equal(['a', 'b', 'z']);
  });

  it('keeps the best fifty', () => {
    const many = Array.from({ length: 120 }, (_, index) => ({ id: `${index}`.padStart(3, '0'), score: -index }));
    const halves = [many.slice(0, 60), many.slice(60)].map((hits) => ({ rrfK: 60, legs: new Map([['words', hits]]) }));
    expect(order(mergeRetrievalGroups(halves))).deep.equal(order(many.slice(0, 50)));
  });
});
