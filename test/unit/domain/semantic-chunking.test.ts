import { expect } from 'chai';
import fc from 'fast-check';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import {
  chunkByTokens,
  chunkSemantically,
  cosineDistance,
  windowsForSemanticChunking,
} from '#src/domain/documents/chunking.ts';
import { propertyRuns } from '#test/support/property-runs.ts';

const tokens = createTokenCounter();
const options = (targetTokens: number) => ({ method: 'semantic' as const, targetTokens, overlapTokens: 0 });
const angle = (radians: number) => Float32Array.from([Math.cos(radians), Math.sin(radians)]);

function chunk(body: string, targetTokens: number, radians: (window: string, index: number) => number) {
  const windows = windowsForSemanticChunking(body, options(targetTokens), { tokens });
  const vectors = windows.map((window, index) => angle(radians(window, index)));
  const distances = vectors.slice(1).map((vector, index) => cosineDistance(vectors[index] ?? vector, vector));
  return chunkSemantically(body, options(targetTokens), distances, { tokens });
}

describe('semantic chunking', () => {
  const loans = Array.from({ length: 10 }, (_, n) => `Loan rule ${n} is about money. `);
  const birds = Array.from({ length: 10 }, (_, n) => `Bird fact ${n} is about wings. `);

  it('splits where the topic changes', () => {
    const pieces = chunk([...loans, ...birds].join(''), 200, (_, index) => (index < loans.length ? 0 : 1.5));
    expect(pieces.map((piece) => piece.content)).to.deep.equal([loans.join(''), birds.join('')]);
  });

  it('covers the body without overlap, within the target, for any embeddings', () => {
    const sentence = fc.oneof(
      fc.lorem({ maxCount: 1, mode: 'sentences' }),
      fc.constantFrom('# Heading\n', '| a | b |\n', '- item\n', '世界。'),
    );
    const body = fc.array(sentence, { minLength: 4, maxLength: 40 }).map((list) => list.join(' '));
    fc.assert(
      fc.property(
        body,
        fc.integer({ min: 20, max: 120 }),
        fc.array(fc.double({ min: 0, max: 3, noNaN: true }), { minLength: 1 }),
        (text, target, angles) => {
          const pieces = chunk(text, target, (_, index) => angles[index % angles.length] ?? 0);
          expect(pieces.map((piece) => piece.content).join('')).to.equal(text);
          for (const piece of pieces) expect(piece.tokenCount).to.be.at.most(target);
        },
      ),
      { numRuns: propertyRuns(500) },
    );
  });

  it('joins a segment below a quarter of the target to its nearer neighbour', () => {
    const pieces = chunk([...loans.slice(0, 9), 'Tiny. ', ...birds].join(''), 100, (_, index) => index * index);
    expect(pieces.length).to.be.greaterThan(1);
    pieces.forEach(({ content, tokenCount }, index) => {
      if (tokenCount >= 25) return;
      for (const neighbour of [pieces[index - 1], pieces[index + 1]]) {
        if (neighbour) expect(neighbour.tokenCount + tokenCount, content).to.be.greaterThan(100);
      }
    });
  });

  it('chunks by tokens if there are too few sentences', () => {
    const body = loans.slice(0, 5).join('');
    expect(windowsForSemanticChunking(body, options(20), { tokens })).to.deep.equal([]);
    expect(chunkSemantically(body, options(20), [], { tokens })).to.deep.equal(
      chunkByTokens(body, { method: 'token', targetTokens: 20, overlapTokens: 0 }, { tokens }),
    );
  });

  it('embeds each sentence together with its neighbours', () => {
    const windows = windowsForSemanticChunking(loans.join(''), options(100), { tokens });
    expect(windows[0]).to.equal(loans.slice(0, 2).join(''));
    expect(windows[4]).to.equal(loans.slice(3, 6).join(''));
  });

  it('limits a window to what an embedding service accepts', () => {
    const long = `Long ${'word '.repeat(1_999)}ends. `;
    const windows = windowsForSemanticChunking(long.repeat(8), options(8_000), { tokens });
    expect(windows).to.have.length(8);
    expect(Math.max(...windows.map((window) => window.length))).to.equal(8_000);
  });
});
