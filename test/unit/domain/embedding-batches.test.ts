import { expect } from 'chai';
import fc from 'fast-check';
import { planEmbeddingBatches, splitTextInHalves, weightedMeanVector } from '#src/domain/documents/embedding.ts';

describe('planEmbeddingBatches', () => {
  it('plans the longest texts first within both limits', () => {
    expect(planEmbeddingBatches([1, 9, 3, 7, 2], { texts: 2, tokens: 10 })).deep.equal([[1], [3, 2], [4, 0]]);
  });

  it('gives a text above the limit its own request', () => {
    expect(planEmbeddingBatches([5, 100, 5], { texts: 8, tokens: 10 })).deep.equal([[1], [0, 2]]);
  });

  it('includes every text once, and exceeds a limit only with a single text', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(50)),
        fc.record({ texts: fc.integer({ min: 1, max: 9 }), tokens: fc.integer({ min: 1, max: 60 }) }),
        (counts, limits) => {
          const batches = planEmbeddingBatches(counts, limits);
          expect(batches.flat().sort((a, b) => a - b)).deep.equal(counts.map((_, index) => index));
          for (const batch of batches) {
            expect(batch.length).within(1, limits.texts);
            const tokens = batch.reduce((sum, index) => sum + (counts[index] ?? 0), 0);
            if (batch.length > 1) expect(tokens).at.most(limits.tokens);
          }
        },
      ),
    );
  });
});

describe('splitTextInHalves', () => {
  it('splits at the space nearest to the middle', () => {
    expect(splitTextInHalves('aaaa bb cccccccc')).deep.equal(['aaaa bb', ' cccccccc']);
  });

  it('loses nothing and never splits a character', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 2, unit: 'grapheme' }), (text) => {
        const pieces = splitTextInHalves(text);
        expect(pieces.join('')).equal(text);
        if (text.isWellFormed()) expect(pieces.every((piece) => piece.isWellFormed())).equal(true);
      }),
    );
  });
});

describe('weightedMeanVector', () => {
  it('returns the weighted mean as a unit vector', () => {
    const pooled = weightedMeanVector([
      { vector: Float32Array.of(1, 0), weight: 3 },
      { vector: Float32Array.of(0, 1), weight: 4 },
    ]);
    expect(pooled[0]).closeTo(0.6, 1e-6);
    expect(pooled[1]).closeTo(0.8, 1e-6);
  });
});
