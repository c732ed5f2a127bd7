import { expect } from 'chai';
import fc from 'fast-check';
import { encode } from 'gpt-tokenizer/encoding/o200k_base';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import { propertyRuns } from '#test/support/property-runs.ts';

const plainText = { allowedSpecial: new Set<string>(), disallowedSpecial: new Set<string>() };

/** Text pieces whose borders are hard to tokenize: contractions, marks, surrogate pairs, spaces, slashes after breaks. */
const awkwardText = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        'word',
        ' ',
        '  ',
        '\n',
        '\r\n',
        '\t',
        '/',
        "'s",
        '.',
        '。',
        '123',
        '4567',
        '-',
        '😀',
        '𝐀',
        '世界',
        'É',
        'é',
      ),
      fc.constantFrom('<|endoftext|>', '…', '“', 'HelloWorld', '\u200d', '\u0301', "don't", '|', ': ', '. '),
      fc.string({ unit: 'grapheme', maxLength: 4 }),
    ),
    { maxLength: 30 },
  )
  .map((parts) => parts.join(''));

describe('token counter', () => {
  const counter = createTokenCounter();

  it('counts as the reference encoding does', () => {
    fc.assert(
      fc.property(awkwardText, (text) => counter.count(text) === encode(text, plainText).length),
      { numRuns: propertyRuns(1000) },
    );
  });

  it('measures any slice as if it were a text of its own', () => {
    fc.assert(
      fc.property(awkwardText, fc.nat(), fc.nat(), (text, a, b) => {
        const [start, end] = [a % (text.length + 1), b % (text.length + 1)].sort((x, y) => x - y) as [number, number];
        return counter.measure(text)(start, end) === encode(text.slice(start, end), plainText).length;
      }),
      { numRuns: propertyRuns(5000) },
    );
  });

  it('counts an unbroken run of 200,000 letters, approximately', () => {
    const count = counter.count('ab'.repeat(100_000));
    expect(count).to.be.within(50_000, 51_000);
  });
});
