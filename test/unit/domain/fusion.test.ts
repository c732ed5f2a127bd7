import { expect } from 'chai';
import fc from 'fast-check';
import { byScoreThenId, fuse, selectChunks } from '#src/domain/fusion.ts';
import { mergeGroups, type RetrievalGroup } from '#src/domain/merge-groups.ts';

describe('reciprocal rank fusion', () => {
  it('counts ranks from 1 and adds nothing for an absent leg', () => {
    expect(fuse([['a', 'b'], ['b']], 60)).to.deep.equal([
      { id: 'b', score: 1 / 62 + 1 / 61 },
      { id: 'a', score: 1 / 61 },
    ]);
  });

  it('orders ties by id', () => {
    expect(fuse([['b'], ['a']], 60).map((hit) => hit.id)).to.deep.equal(['a', 'b']);
  });
});

const ids = 'abcdefghijklmnop'.split('');
const hits = (names: string[]) =>
  fc
    .shuffledSubarray(names)
    .chain((found) =>
      fc
        .array(fc.integer({ min: 0, max: 6 }), { minLength: found.length, maxLength: found.length })
        .map((scores) => found.map((id, index) => ({ id, score: scores[index] ?? 0 }))),
    );
const group = (names: string[]): fc.Arbitrary<RetrievalGroup> =>
  fc.tuple(fc.integer({ min: 1, max: 100 }), hits(names), hits(names)).map(([rrfK, words, vectors]) => ({
    rrfK,
    legs: new Map([
      ['words', words],
      ['model-a', vectors],
    ]),
  }));

describe('merging groups of different settings', () => {
  it('is plain fusion when there is one group', () => {
    fc.assert(
      fc.property(group(ids), (only) => {
        const legs = [...only.legs.values()].map((leg) => [...leg].sort(byScoreThenId).map((hit) => hit.id));
        expect(mergeGroups([only]).map((hit) => hit.id)).to.deep.equal(fuse(legs, only.rrfK).map((hit) => hit.id));
      }),
    );
  });

  it("keeps the other groups' order when one group's rrf_k changes", () => {
    fc.assert(
      fc.property(
        group(ids.slice(0, 5)),
        group(ids.slice(5, 10)),
        group(ids.slice(10)),
        fc.integer({ min: 1, max: 100 }),
        (a, b, c, rrfK) => {
          const others = (merged: { id: string }[]) => merged.map((hit) => hit.id).filter((id) => id >= 'f');
          expect(others(mergeGroups([{ ...a, rrfK }, b, c]))).to.deep.equal(others(mergeGroups([a, b, c])));
        },
      ),
    );
  });

  it('gives a small group no first rank of its own', () => {
    const large = {
      rrfK: 60,
      legs: new Map([
        [
          'words',
          [
            { id: 'a', score: 9 },
            { id: 'b', score: 8 },
          ],
        ],
      ]),
    };
    const small = { rrfK: 60, legs: new Map([['words', [{ id: 'z', score: 1 }]]]) };
    expect(mergeGroups([small, large]).map((hit) => hit.id)).to.deep.equal(['a', 'b', 'z']);
  });
});

describe('selecting chunks for a prompt', () => {
  const chunk = (id: string, tokenCount: number) => ({ id, tokenCount });

  it('takes at most eight', () => {
    expect(selectChunks(ids.map((id) => chunk(id, 10))).length).to.equal(8);
  });

  it('passes over a chunk that does not fit and keeps the order', () => {
    const selected = selectChunks([chunk('a', 2000), chunk('b', 1500), chunk('c', 1000)]);
    expect(selected.map((each) => each.id)).to.deep.equal(['a', 'c']);
  });

  it('keeps the best chunk even when it alone is over the budget', () => {
    expect(selectChunks([chunk('a', 5000), chunk('b', 10)]).map((each) => each.id)).to.deep.equal(['a']);
  });
});
