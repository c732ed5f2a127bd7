import { expect } from 'chai';
import fc from 'fast-check';
import { matchDocumentName, toDocumentNameQuery, wordsOneEditAway } from '#src/domain/retrieval/document-search.ts';
import { propertyRuns } from '#test/support/property-runs.ts';

const match = (key: string, nameKey: string, extension = '') =>
  matchDocumentName(toDocumentNameQuery(key), { key: nameKey, extension });

/** Damerau's distance by its definition, for one edit at most. */
function isOneEdit(a: string, b: string): boolean {
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  let start = 0;
  while (start < short.length && short[start] === long[start]) start += 1;
  if (long.length > short.length)
    return long.length === short.length + 1 && short.slice(start) === long.slice(start + 1);
  const rest = [short.slice(start + 1), long.slice(start + 1)];
  const swapped = short[start] === long[start + 1] && short[start + 1] === long[start];
  return rest[0] === rest[1] || (swapped && short.slice(start + 2) === long.slice(start + 2));
}

describe('the words that are one edit away', () => {
  it('contain exactly the words at edit distance 1', () => {
    const word = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 4, maxLength: 6 });
    const near = fc.string({ unit: fc.constantFrom('a', 'b', 'c'), minLength: 3, maxLength: 7 });
    fc.assert(
      fc.property(word, near, (a, b) => {
        expect(wordsOneEditAway(a).includes(b)).equal(a !== b && isOneEdit(a, b));
      }),
      { numRuns: propertyRuns(1_000) },
    );
  });

  it('use the alphabets of the word; short words and numbers have none', () => {
    expect(wordsOneEditAway('отчет')).include('очтет').and.include('отчеты');
    expect(wordsOneEditAway('отчет').some((word) => /[a-z]/.test(word))).equal(false);
    for (const word of ['rep', '2024', 'q3report', '测试报告'.slice(0, 3)])
      expect(wordsOneEditAway(word)).deep.equal([]);
  });
});

describe('matching a name', () => {
  it('is exact with or without the file extension', () => {
    expect(match('report 2024', 'report 2024 pdf', 'pdf')).equal('exact');
    expect(match('report 2024 pdf', 'report 2024 pdf', 'pdf')).equal('exact');
    expect(match('report 2024', 'report 2024 plan', '')).equal('beginning');
  });

  it('is by prefix, by all words, or by words with one typo', () => {
    expect(match('ann', 'annual report')).equal('beginning');
    expect(match('rep ann', 'annual report')).equal('words');
    expect(match('reprot annual', 'annual report')).equal('typo');
    expect(match('report budget', 'annual report')).equal(null);
    expect(match('', 'annual report')).equal(null);
  });
});
