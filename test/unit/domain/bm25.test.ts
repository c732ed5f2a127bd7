import { expect } from 'chai';
import { bm25TermScore } from '#src/domain/retrieval/bm25.ts';

describe('BM25', () => {
  it('scores one term by the published formula', () => {
    const idf = Math.log(1 + (100 - 5 + 0.5) / 5.5);
    expect(bm25TermScore(2, 5, 100, 50, 50)).to.be.closeTo((idf * 2 * 2.2) / (2 + 1.2), 1e-12);
  });

  it('prefers rare terms, repetitions and short texts', () => {
    expect(bm25TermScore(1, 1, 100, 50, 50)).to.be.greaterThan(bm25TermScore(1, 10, 100, 50, 50));
    expect(bm25TermScore(2, 5, 100, 50, 50)).to.be.greaterThan(bm25TermScore(1, 5, 100, 50, 50));
    expect(bm25TermScore(1, 5, 100, 20, 50)).to.be.greaterThan(bm25TermScore(1, 5, 100, 90, 50));
  });

  it('never gives a match a negative score', () => {
    expect(bm25TermScore(1, 100, 100, 50, 50)).to.be.greaterThan(0);
  });
});
