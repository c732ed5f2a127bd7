import { expect } from 'chai';
import fc from 'fast-check';
import { bm25TermScore } from '#src/domain/retrieval/bm25.ts';
import {
  type FoundDocument,
  matchDocumentName,
  maxRankedDocuments,
  rankDocuments,
  toDocumentNameQuery,
  wordsOneEditAway,
} from '#src/domain/retrieval/document-search.ts';
import { highlightBestPassage, previewOfBeginning } from '#src/domain/retrieval/search-preview.ts';
import { containsTermPhrase, quotedPhrases } from '#src/domain/text/words.ts';
import { propertyRuns } from '#test/support/seeded.ts';

describe('the ranking of found documents', () => {
  const none = { documentId: 'it', updatedAt: new Date(0), name: null, text: null };

  it('has descending ranks, contains every document once and does not depend on the input order', () => {
    const found = fc.record({
      documentId: fc.uuid(),
      updatedAt: fc.integer({ min: 0, max: 3 }).map((second) => new Date(second * 1_000)),
      name: fc.constantFrom('exact', 'beginning', 'words', 'typo', null),
      text: fc.option(
        fc.record({ score: fc.integer({ min: 1, max: 9 }), coverage: fc.constantFrom('phrase', 'all', 'some') }),
      ),
    }) as fc.Arbitrary<FoundDocument>;
    const many = fc.uniqueArray(found, { selector: ({ documentId }) => documentId, maxLength: 20 });
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

  it('puts matches of name and text first, name before text, and more matching words before fewer', () => {
    const best: FoundDocument = { ...none, documentId: 'best', text: { score: 10, coverage: 'phrase' } };
    const ranks = (
      [
        ['exact', null],
        ['beginning', 'all'],
        ['words', 'all'],
        ['beginning', null],
        ['words', null],
        [null, 'phrase'],
        ['typo', 'all'],
        [null, 'all'],
        ['typo', null],
        [null, 'some'],
      ] as const
    ).map(([name, coverage]) => {
      const ranked = rankDocuments([{ ...none, name, text: coverage && { score: 1, coverage } }, best]);
      return ranked.find(({ documentId }) => documentId === 'it')?.rank ?? Number.NaN;
    });
    expect(ranks).deep.equal([...new Set(ranks)].toSorted((a, b) => b - a));
  });

  it('puts recently changed documents first among equal matches, and has a maximum length', () => {
    const documents = Array.from({ length: maxRankedDocuments + 5 }, (_, index): FoundDocument => {
      return { ...none, documentId: `d${index}`, updatedAt: new Date(index), name: 'words' };
    });
    const ranked = rankDocuments(documents);
    expect(ranked.length).equal(maxRankedDocuments);
    expect(ranked[0]?.documentId).equal(`d${maxRankedDocuments + 4}`);
  });

  it('scores a word by BM25: rare words, repetitions and short texts higher, never below zero', () => {
    const idf = Math.log(1 + (100 - 5 + 0.5) / 5.5);
    expect(bm25TermScore(2, 5, 100, 50, 50)).to.be.closeTo((idf * 2 * 2.2) / (2 + 1.2), 1e-12);
    expect(bm25TermScore(1, 1, 100, 50, 50)).to.be.greaterThan(bm25TermScore(1, 10, 100, 50, 50));
    expect(bm25TermScore(2, 5, 100, 50, 50)).to.be.greaterThan(bm25TermScore(1, 5, 100, 50, 50));
    expect(bm25TermScore(1, 5, 100, 20, 50)).to.be.greaterThan(bm25TermScore(1, 5, 100, 90, 50));
    expect(bm25TermScore(1, 100, 100, 50, 50)).to.be.greaterThan(0);
  });
});

describe('matching the name of a document', () => {
  it('is exact with or without the file extension, by prefix, by all words, or by words with one typo', () => {
    for (const [query, name, extension, expected] of [
      ['report 2024', 'report 2024 pdf', 'pdf', 'exact'],
      ['report 2024 pdf', 'report 2024 pdf', 'pdf', 'exact'],
      ['report 2024', 'report 2024 plan', '', 'beginning'],
      ['ann', 'annual report', '', 'beginning'],
      ['rep ann', 'annual report', '', 'words'],
      ['reprot annual', 'annual report', '', 'typo'],
      ['report budget', 'annual report', '', null],
      ['', 'annual report', '', null],
    ] as const) {
      expect(matchDocumentName(toDocumentNameQuery(query), { key: name, extension }), query).equal(expected);
    }
  });

  /** Damerau's distance by its definition, for one edit at most. */
  function isOneEdit(a: string, b: string): boolean {
    const [short, long] = a.length < b.length ? [a, b] : [b, a];
    let start = 0;
    while (start < short.length && short[start] === long[start]) start += 1;
    if (long.length > short.length)
      return long.length === short.length + 1 && short.slice(start) === long.slice(start + 1);
    const swapped = short[start] === long[start + 1] && short[start + 1] === long[start];
    return (
      short.slice(start + 1) === long.slice(start + 1) || (swapped && short.slice(start + 2) === long.slice(start + 2))
    );
  }

  it("accepts as a typo exactly one edit in letters of the word's alphabet, but not in short words", () => {
    const letters = (minLength: number, maxLength: number) =>
      fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength, maxLength });
    fc.assert(
      fc.property(letters(4, 6), letters(3, 7), (a, b) => {
        expect(wordsOneEditAway(a).includes(b)).equal(a !== b && isOneEdit(a, b));
      }),
      { numRuns: propertyRuns(1_000) },
    );
    expect(wordsOneEditAway('отчет')).include('очтет').and.include('отчеты');
    expect(wordsOneEditAway('отчет').some((word) => /[a-z]/.test(word))).equal(false);
    for (const word of ['rep', '2024', 'q3report', '测试报']) expect(wordsOneEditAway(word)).deep.equal([]);
  });
});

describe('the preview of a text', () => {
  const wanted =
    (...words: string[]) =>
    (word: string) =>
      words.includes(word.toLowerCase()) ? word : undefined;
  const entities = { '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'", '&amp;': '&' };

  it('is escaped, short and an excerpt of the text for random texts', () => {
    const piece = fc.constantFrom('apple', '<b>', '&amp;', '"', "'", '<mark>', '😀', ' ', '\n', 'pear', 'é');
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 200 }), fc.constantFrom('', ' '), (pieces, separator) => {
        const text = pieces.join(separator);
        for (const html of [highlightBestPassage(text, wanted('apple')), previewOfBeginning(text)]) {
          if (html === null) continue;
          expect(html.replaceAll(/<mark>apple<\/mark>/g, '')).not.match(/[<>"']|&(?!(amp|lt|gt|quot|#39);)/);
          let passage = html.replaceAll(/<\/?mark>|…/g, '');
          for (const [entity, character] of Object.entries(entities)) passage = passage.replaceAll(entity, character);
          expect(text.replaceAll(/\s+/g, ' ').trim()).contain(passage);
          expect(passage.length).most(280);
          expect(passage.isWellFormed()).equal(true);
        }
      }),
    );
  });

  it('is the passage with the most query words close together, or the whole of a short text', () => {
    const filler = 'filler '.repeat(80);
    const html = highlightBestPassage(
      `apple ${filler} pear and apple ${filler} apple pear ${filler}`,
      wanted('apple', 'pear'),
    );
    expect(html)
      .contain('<mark>apple</mark> <mark>pear</mark>')
      .and.match(/^…filler .* filler…$/);
    expect(highlightBestPassage(filler, wanted('plum'))).equal(null);
    expect(highlightBestPassage('One\n\n apple.', wanted('apple'))).equal('One <mark>apple</mark>.');
    expect([previewOfBeginning('One & two'), previewOfBeginning('')]).deep.equal(['One &amp; two', '']);
  });

  it('finds a quoted phrase only where its words follow each other', () => {
    const terms = (text: string) => text.split(' ').map((stem) => ({ stem, isStopWord: false }));
    expect(quotedPhrases('a "b c" d “e” "f')).deep.equal(['b c', 'e']);
    expect(quotedPhrases('"" " "')).deep.equal([]);
    const found = ['a b c d', 'a b x c', 'a b'].map((text) => containsTermPhrase(terms(text), terms('b c')));
    expect(found).deep.equal([true, false, false]);
  });
});
