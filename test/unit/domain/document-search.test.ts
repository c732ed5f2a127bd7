import { expect } from 'chai';
import fc from 'fast-check';
import { type FoundDocument, maxRankedDocuments, rankDocuments } from '#src/domain/retrieval/document-search.ts';

const found = fc.record({
  documentId: fc.uuid(),
  updatedAt: fc.integer({ min: 0, max: 3 }).map((second) => new Date(second * 1_000)),
  name: fc.constantFrom('exact', 'beginning', 'words', 'typo', null),
  text: fc.option(
    fc.record({ score: fc.integer({ min: 1, max: 9 }), coverage: fc.constantFrom('phrase', 'all', 'some') }),
  ),
}) as fc.Arbitrary<FoundDocument>;

const many = fc.uniqueArray(found, { selector: ({ documentId }) => documentId, maxLength: 20 });

const rankOf = (document: Pick<FoundDocument, 'name' | 'text'>): number => {
  const best: FoundDocument = {
    ...{ documentId: 'best', updatedAt: new Date(0), name: null },
    text: { score: 10, coverage: 'phrase' },
  };
  const ranked = rankDocuments([{ documentId: 'it', updatedAt: new Date(0), ...document }, best]);
  return ranked.find(({ documentId }) => documentId === 'it')?.rank ?? Number.NaN;
};

describe('the ranking of found documents', () => {
  it('is descending, contains every document once and does not depend on the input order', () => {
    fc.assert(
      fc.property(many, (documents) => {
        const ranked = rankDocuments(documents);
        const ranks = ranked.map(({ rank }) => rank);
        expect(ranks).deep.equal(ranks.toSorted((a, b) => b - a));
        expect(ranked.map(({ documentId }) => documentId)).to.have.members(documents.map((one) => one.documentId));
        expect(rankDocuments(documents.toReversed())).deep.equal(ranked);
      }),
    );
  });

  it('puts names above texts, both above one, and more words above fewer', () => {
    const all = { score: 1, coverage: 'all' } as const;
    const order = [
      rankOf({ name: 'exact', text: null }),
      rankOf({ name: 'beginning', text: all }),
      rankOf({ name: 'words', text: all }),
      rankOf({ name: 'beginning', text: null }),
      rankOf({ name: 'words', text: null }),
      rankOf({ name: null, text: { score: 1, coverage: 'phrase' } }),
      rankOf({ name: 'typo', text: all }),
      rankOf({ name: null, text: all }),
      rankOf({ name: 'typo', text: null }),
      rankOf({ name: null, text: { score: 1, coverage: 'some' } }),
    ];
    expect(order).deep.equal(order.toSorted((a, b) => b - a));
    expect(new Set(order).size).equal(order.length);
  });

  it('ranks recently changed documents first among equals, up to the limit', () => {
    const documents = Array.from({ length: maxRankedDocuments + 5 }, (_, place): FoundDocument => {
      return { documentId: `d${place}`, updatedAt: new Date(place), name: 'words', text: null };
    });
    const ranked = rankDocuments(documents);
    expect(ranked.length).equal(maxRankedDocuments);
    expect(ranked[0]?.documentId).equal(`d${maxRankedDocuments + 4}`);
  });
});
