import { expect } from 'chai';
import { createTextAnalyzer } from '#src/adapters/text/text-analyzer.ts';
import { type AnchorWordCandidate, selectAnchorWordCandidates } from '#src/domain/alignment/anchor-words.ts';

const analyze = createTextAnalyzer();
const candidate = (word: string, relevance: number, vector: number[] = [1, 0]): AnchorWordCandidate => ({
  word,
  relevance,
  vector: Float32Array.from(vector),
});

describe('anchor candidates', () => {
  it('contain each stem once, in its most relevant form, and no taken words', () => {
    const candidates = [
      candidate('loans', 0.5),
      candidate('loan', 0.9),
      candidate('mortgages', 0.8),
      candidate('card', 0.7),
    ];
    expect(selectAnchorWordCandidates(candidates, ['Mortgage'], analyze)).to.deep.equal(['loan', 'card']);
  });

  it('contain no stop words and long phrases', () => {
    const candidates = [candidate('the', 0.9), candidate('one two three four', 0.9), candidate('interest rate', 0.1)];
    expect(selectAnchorWordCandidates(candidates, [], analyze)).to.deep.equal(['interest rate']);
  });

  it('rank diverse words before similar ones', () => {
    const candidates = [candidate('loan', 0.9), candidate('credit', 0.85), candidate('branch', 0.7, [0, 1])];
    expect(selectAnchorWordCandidates(candidates, [], analyze)).to.deep.equal(['loan', 'branch', 'credit']);
    expect(selectAnchorWordCandidates(candidates, [], analyze, 1)).to.deep.equal(['loan']);
  });
});
