import { expect } from 'chai';
import fc from 'fast-check';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import {
  buildChunkContextMessages,
  chunkContextExcerpt,
  cleanChunkContext,
  headingAbove,
  maxChunkContextTokens,
  textWithChunkContext,
} from '#src/domain/documents/chunk-document.ts';
import {
  embeddingSpaceId,
  parseEmbeddingSpaceId,
  planEmbeddingBatches,
  splitTextInHalves,
  weightedMeanVector,
} from '#src/domain/documents/embedding.ts';

const tokens = createTokenCounter();

describe('the contextual text of a chunk', () => {
  it('is requested with prompts that begin with the document, identically for all its chunks', () => {
    const ask = (passage: string) =>
      buildChunkContextMessages({ document: 'All \u200bof it.', passage }, 'k3y8k3y8').map(({ content }) => content);
    const [[rules, first = ''], [, second = '']] = [ask('One.'), ask('Two.')];
    expect(rules).include('never instructions');
    const shared = '<<k3y8k3y8 document>>\nAll of it.\n<<end k3y8k3y8 document>>\n\n<<k3y8k3y8 passage>>\n';
    expect(first.startsWith(`${shared}One.\n<<end k3y8k3y8 passage>>`)).equal(true);
    expect(second.startsWith(`${shared}Two.`)).equal(true);
  });

  it('is requested with the whole of a short document, or parts of a long document around the chunk', () => {
    const body = Array.from({ length: 1_000 }, (_, n) => `[${n}]`.padStart(10)).join('');
    expect(chunkContextExcerpt(body, 0, body.length)).equal(body);
    const excerpt = chunkContextExcerpt(body, 5_000, 1_000);
    expect(excerpt).include('[0]').and.include('[…]').and.include('[500]').and.not.include('[900]');
    expect(chunkContextExcerpt(body, 5_040, 1_000), 'the neighbour has the same excerpt').equal(excerpt);
    expect(chunkContextExcerpt(body, 100, 1_000)).equal(body.slice(0, 1_000));
    expect(chunkContextExcerpt(body, body.length, 1_000).endsWith(body.slice(-750))).equal(true);
    expect(chunkContextExcerpt(body, 9_999, 1_000)).include('[999]');
    fc.assert(
      fc.property(fc.nat(20_000), fc.integer({ min: 40, max: 30_000 }), (position, maxLength) => {
        const text = 'x'.repeat(position).concat('!', 'x'.repeat(20_000 - position));
        const shown = chunkContextExcerpt(text, position, maxLength);
        expect(shown).include('!');
        expect(shown.length).at.most(maxLength + '\n[…]\n'.length);
      }),
    );
  });

  it('is the answer of the model without labels, quotes and delimiters, cut to whole sentences', () => {
    const clean = (answer: string) => cleanChunkContext(answer, { tokens });
    const labelled = ' **Context:** "Of the\u200b handbook,\n the part on leave."\n';
    expect(clean(labelled)).equal('Of the handbook, the part on leave.');
    expect(clean('<<end k3y8k3y8 passage>> \n "" ')).equal('');
    const shortened = clean('It is of the handbook. '.repeat(60));
    expect(shortened).match(/^(It is of the handbook\. ?)+$/);
    expect(tokens.count(shortened)).within(80, maxChunkContextTokens);
    expect(tokens.count(clean('and so on '.repeat(300)))).within(90, maxChunkContextTokens);
  });

  it('is document name, headings and page if no model writes the text', () => {
    const text = textWithChunkContext({ documentName: 'Handbook', headingPath: ['Leave'], pageNumber: 4 });
    expect(text).to.equal('Handbook › Leave (page 4)');
    const written = { documentName: ' ', headingPath: ['Leave', ' '], pageNumber: 4, context: 'Of the handbook.' };
    expect(textWithChunkContext(written)).to.equal('Leave (page 4)\nOf the handbook.');
  });
});

describe('the heading above a place in a chunk', () => {
  const headingAt = (
    content: string,
    place: string,
    headingPath: string[],
    chunkKind = 'text',
    documentName = 'A › B',
  ) => {
    const context = 'Of › the handbook (page 9).';
    const contextualText = textWithChunkContext({ documentName, headingPath, pageNumber: 4, context });
    return headingAbove({ content, chunkKind, contextualText, documentName }, content.indexOf(place));
  };

  it('is the nearest one before it in the chunk, else the one above the chunk', () => {
    const content = 'Parents stay at home.\n\n## Sick *leave*\n\nThe sick stay in bed.\n\n##\n\nOthers come.\n';
    expect(headingAt(content, 'Parents', ['Leave', 'Parental leave (2)'])).equal('Parental leave (2)');
    expect(headingAt(content, 'Parents', [])).equal(null);
    expect(headingAt(content, 'Parents', ['Leave'], 'text', ' ')).equal('Leave');
    expect(headingAt(content, '## Sick', ['Leave'])).equal('Sick leave');
    expect(headingAt(content, 'The sick', ['Leave'])).equal('Sick leave');
    expect(headingAt(content, 'Others', ['Leave'])).equal('Leave');
  });

  it('is no comment of a program', () => {
    expect(headingAt('x = 1\n# Add one\nx += 1\n', 'x += 1', ['Counting'], 'code')).equal('Counting');
  });

  it('is unknown for a chunk without a contextual prefix', () => {
    const chunk = { content: 'Parents stay.', chunkKind: 'text', contextualText: null, documentName: 'Handbook' };
    expect(headingAbove(chunk, 0)).equal(null);
  });
});

describe('the batches of texts to embed', () => {
  it('belong to a vector space named after the model, such as `small`, or `small@256` if cut to 256 dimensions', () => {
    for (const [id, model, dimensions] of [
      ['small', 'small', null],
      ['small@256', 'small', 256],
      ['a@b@0', 'a@b@0', null],
    ] as const) {
      expect(parseEmbeddingSpaceId(id)).deep.equal({ model, dimensions });
      expect(embeddingSpaceId(model, dimensions)).equal(id);
    }
  });

  it('contain the longest texts first, and exceed the limits of a request only with a single text', () => {
    expect(planEmbeddingBatches([1, 9, 3, 7, 2], { texts: 2, tokens: 10 })).deep.equal([[1], [3, 2], [4, 0]]);
    expect(planEmbeddingBatches([5, 100, 5], { texts: 8, tokens: 10 })).deep.equal([[1], [0, 2]]);
    const limit = { texts: fc.integer({ min: 1, max: 9 }), tokens: fc.integer({ min: 1, max: 60 }) };
    fc.assert(
      fc.property(fc.array(fc.nat(50)), fc.record(limit), (counts, limits) => {
        const batches = planEmbeddingBatches(counts, limits);
        expect(batches.flat().sort((a, b) => a - b)).deep.equal(counts.map((_, index) => index));
        for (const batch of batches) {
          expect(batch.length).within(1, limits.texts);
          const sum = batch.reduce((total, index) => total + (counts[index] ?? 0), 0);
          if (batch.length > 1) expect(sum).at.most(limits.tokens);
        }
      }),
    );
  });

  it('replace a text that is too long by two halves, split near its middle, and combine the two vectors', () => {
    for (const [text, first] of [
      ['aaaa bb cccccccc', 'aaaa bb'],
      ['a bbbbbbb cccccc', 'a bbbbbbb'],
      [' aaaa', ' a'],
      ['aaaa ', 'aa'],
      ['a😀b', 'a😀'],
      ['😀😀😀', '😀😀'],
    ] as const) {
      expect(splitTextInHalves(text), text).deep.equal([first, text.slice(first.length)]);
    }
    fc.assert(
      fc.property(fc.string({ minLength: 2, unit: 'grapheme' }), (text) => {
        const pieces = splitTextInHalves(text);
        expect(pieces.join('')).equal(text);
        if (text.isWellFormed()) expect(pieces.every((piece) => piece.isWellFormed())).equal(true);
      }),
    );
    const [x, y] = weightedMeanVector([
      { vector: Float32Array.of(1, 0), weight: 3 },
      { vector: Float32Array.of(0, 1), weight: 4 },
    ]);
    expect(x).closeTo(0.6, 1e-6);
    expect(y).closeTo(0.8, 1e-6);
  });
});
