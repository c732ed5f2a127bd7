import { expect } from 'chai';
import fc from 'fast-check';
import { bm25TermScore, toPostingBlocks } from '#src/domain/retrieval/bm25.ts';
import {
  type FoundDocument,
  matchDocumentName,
  maxRankedDocuments,
  rankDocuments,
  toDocumentNameQuery,
  wordsOneEditAway,
} from '#src/domain/retrieval/document-search.ts';
import { highlightBestPassage, previewOfBeginning } from '#src/domain/retrieval/search-preview.ts';

describe('the ranking of found documents', () => {
  const none = { documentId: 'it', updatedAt: new Date(0), name: null, text: null };

  it('puts matches of name and text first, name before text, and more matching words before fewer', () => {
    const best: FoundDocument = { ...none, documentId: 'best', text: { score: 10, coverage: 'phrase' } };
    for (const [name, coverage, rank] of [
      ['exact', 'some', 5.0333],
      ['exact', null, 5],
      ['beginning', 'all', 3.6797],
      ['words', 'phrase', 3.343],
      ['words', 'all', 3.1797],
      ['beginning', null, 2.5],
      ['words', null, 2],
      [null, 'phrase', 0.7],
      ['typo', 'all', 0.6167],
      [null, 'all', 0.3667],
      ['typo', null, 0.25],
      [null, 'some', 0.0333],
    ] as const) {
      const ranked = rankDocuments([{ ...none, name, text: coverage && { score: 1, coverage } }, best]);
      expect(ranked.find(({ documentId }) => documentId === 'it')?.rank, `${name} ${coverage}`).equal(rank);
    }
  });

  it('puts recently changed documents first among equal matches, and returns at most a fixed number of them', () => {
    const documents = Array.from({ length: maxRankedDocuments + 5 }, (_, index): FoundDocument => {
      return { ...none, documentId: `d${index}`, updatedAt: new Date(Math.min(index, 500)), name: 'words' };
    });
    const ranked = rankDocuments(documents);
    expect(ranked.length).equal(maxRankedDocuments);
    expect(ranked.slice(0, 6).map(({ documentId }) => documentId)).deep.equal(
      [500, 501, 502, 503, 504, 499].map((n) => `d${n}`),
    );
    expect(rankDocuments(documents.toReversed())).deep.equal(ranked);
  });

  it('scores a word by BM25: rare words, repetitions and short texts higher, never below zero', () => {
    const idf = Math.log(1 + (100 - 5 + 0.5) / 5.5);
    expect(bm25TermScore(2, 5, 100, 50, 50)).to.be.closeTo((idf * 2 * 2.2) / (2 + 1.2), 1e-12);
    expect(bm25TermScore(1, 1, 100, 50, 50)).to.be.greaterThan(bm25TermScore(1, 10, 100, 50, 50));
    expect(bm25TermScore(2, 5, 100, 50, 50)).to.be.greaterThan(bm25TermScore(1, 5, 100, 50, 50));
    expect(bm25TermScore(1, 5, 100, 20, 50)).to.be.greaterThan(bm25TermScore(1, 5, 100, 90, 50));
    expect(bm25TermScore(1, 100, 100, 50, 50)).to.be.greaterThan(0);
  });

  it('reads postings in blocks of 128 chunks per word, caps word counts at 1,023 and chunk lengths at 16,383', () => {
    const chunk = (index: number, frequency: number, termCount: number) => {
      return { index, terms: new Map([['fee', frequency]]), termCount };
    };
    const posting = (offset: number, frequency: number, length: number) =>
      (offset * 1_024 + frequency) * 16_384 + length;
    expect(toPostingBlocks([chunk(0, 1, 9), chunk(127, 2_000, 20_000), chunk(257, 3, 8)])).deep.equal([
      { term: 'fee', block: 0, postings: [posting(0, 1, 9), posting(127, 1_023, 16_383)] },
      { term: 'fee', block: 2, postings: [posting(1, 3, 8)] },
    ]);
  });
});

describe('matching the name of a document', () => {
  it('is exact with or without the file extension, by prefix, by all words, or by words with one typo', () => {
    for (const [query, name, extension, expected] of [
      ['report 2024', 'report 2024 pdf', 'pdf', 'exact'],
      ['report 2024 pdf', 'report 2024 pdf', 'pdf', 'exact'],
      ['report', 'report 2024', '2024 ', 'beginning'],
      ['report', 'report ', '', 'beginning'],
      ['report 2024', 'report 2024 plan', '', 'beginning'],
      ['ann', 'annual report', '', 'beginning'],
      ['rep ann', 'annual report', '', 'words'],
      ['reprot annual', 'annual report', '', 'typo'],
      ['a b c d e f g reprot', 'a b c d e f g report', '', 'typo'],
      ['a b c d e f g h reprot', 'a b c d e f g h report', '', null],
      ['report budget', 'annual report', '', null],
      ['', 'annual report', '', null],
    ] as const) {
      expect(matchDocumentName(toDocumentNameQuery(query), { key: name, extension }), query).equal(expected);
    }
  });

  it("accepts one wrong, missing, extra or swapped letter of the word's alphabet as a typo in long words", () => {
    // 4 letters left out, 3 pairs swapped, 4 · 25 letters replaced, 5 · 26 − 4 added.
    const near = wordsOneEditAway('abcd');
    expect(near).include.members(['bcd', 'abc', 'bacd', 'abdc', 'zbcd', 'abcz', 'zabcd', 'abzcd', 'abcdz']);
    expect(new Set(near).size).equal(4 + 3 + 4 * 25 + 5 * 26 - 4);
    for (const [word, ...near] of [
      ['отчет', 'очтет', 'отчеты', 'отчџт'],
      ['λόγος', 'λόγοω', 'αλόγος'],
      ['שלום', 'שלות', 'אשלום'],
      ['سلام', 'سلاي', 'ءسلام'],
      ['cafés', 'cafés'.replace('s', 'z')],
      ['x'.repeat(24), 'x'.repeat(25)],
    ] as const) {
      expect(wordsOneEditAway(word)).include.members(near);
      expect(wordsOneEditAway(word).some((other) => /[a-z]/.test(other))).equal(/[a-z]/.test(word));
    }
    for (const word of ['rep', '2024', 'q3report', '测试报', 'x'.repeat(25)])
      expect(wordsOneEditAway(word)).deep.equal([]);
  });
});

describe('the preview of a text', () => {
  const wanted =
    (...words: string[]) =>
    (word: string) =>
      words.includes(word.toLowerCase()) ? word : undefined;
  const entities = { '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'", '&amp;': '&' };

  it('is an escaped excerpt of the text with at most 280 characters, whatever the text contains', () => {
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
    const best = (...texts: string[]) => highlightBestPassage(texts.join(' '), wanted('apple', 'pear', 'plum'));
    const marked = (...texts: string[]) =>
      best(...texts)
        ?.replaceAll(/…|filler ?|<.?mark>/g, '')
        .trim();
    for (const [texts, passage] of [
      [[`apple ${filler} pear and apple ${filler} apple pear`, filler], 'apple pear'],
      [[`apple ${'x'.repeat(20)} pear ${filler} pear apple`, filler], 'pear apple'],
      [['apple pear apple', filler, 'pear, apple', filler], 'apple pear apple'],
      // Of equal passages, the first; more words within 220 characters count more.
      [['apple', filler, 'plum', filler], 'apple'],
      [[`apple, pear ${'x'.repeat(203)} plum`, filler, 'pear apple', filler], `apple, pear ${'x'.repeat(203)} plum`],
      [[`apple, pear ${'x'.repeat(204)} plum`, filler, 'pear apple', filler], 'pear apple'],
    ] as const) {
      expect(marked(...texts), texts[0].slice(0, 40)).equal(passage);
    }
    expect(highlightBestPassage('我在东京塔', wanted('东京', '京塔'))).equal('我在<mark>东京塔</mark>');
    expect(best(filler, 'apple pear', filler)).match(/^…filler .*<mark>apple<\/mark> <mark>pear<\/mark> .*filler…$/);
    expect(highlightBestPassage(filler, wanted('plum'))).equal(null);
    expect(best('One\n\n apple.')).equal('One <mark>apple</mark>.');
  });

  it('begins and ends between words, or else between characters, and has 280 characters at most', () => {
    const smileys = '😀'.repeat(150);
    for (const [text, preview] of [
      ['One & two', 'One &amp; two'],
      ['', ''],
      ['x'.repeat(280), 'x'.repeat(280)],
      ['x'.repeat(281), `${'x'.repeat(280)}…`],
      ['word '.repeat(100), `${'word '.repeat(56).trim()}…`],
      [`${'a'.repeat(140)} ${'b'.repeat(200)}`, `${'a'.repeat(140)} ${'b'.repeat(139)}…`],
      [`${'a'.repeat(141)} ${'b'.repeat(200)}`, `${'a'.repeat(141)}…`],
      [smileys, `${'😀'.repeat(140)}…`],
      [`x${smileys}`, `x${'😀'.repeat(139)}…`],
    ] as const) {
      expect(previewOfBeginning(text), text).equal(preview);
    }
    const end = 'b'.repeat(300);
    for (const [before, begin] of [
      ['a'.repeat(100), `…${'a'.repeat(59)} <mark>`],
      [`${'a'.repeat(100)} ${'c'.repeat(30)}`, `…${'c'.repeat(30)} <mark>`],
      [`${'a'.repeat(100)} ${'c'.repeat(29)}`, `…${'c'.repeat(29)} <mark>`],
      [smileys, `…${'😀'.repeat(30)} <mark>`],
      [`x${smileys}`, `…${'😀'.repeat(30)} <mark>`],
      [`${'a '.repeat(100)}`, `…${'a '.repeat(30)}<mark>`],
    ] as const) {
      const html = highlightBestPassage(`${before} apple ${end}`, wanted('apple'));
      expect(html?.slice(0, begin.length), before).equal(begin);
    }
    expect(highlightBestPassage(`${'word '.repeat(100)}apple`, wanted('apple'))).equal(
      `…${'word '.repeat(55)}<mark>apple</mark>`,
    );
  });
});
