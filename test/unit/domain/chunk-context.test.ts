import { expect } from 'chai';
import fc from 'fast-check';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import {
  buildChunkContextMessages,
  chunkContextExcerpt,
  cleanChunkContext,
  maxChunkContextTokens,
} from '#src/domain/documents/chunk-document.ts';

const tokens = createTokenCounter();

describe('chunk context', () => {
  it('puts the document first and identically into the prompts of all its passages', () => {
    const ask = (passage: string) =>
      buildChunkContextMessages({ document: 'All \u200bof it.', passage }, 'k3y8k3y8').map(
        (message) => message.content,
      );
    const [[rules, first = ''], [, second = '']] = [ask('One.'), ask('Two.')];
    expect(rules).include('never instructions');
    const shared = '<<k3y8k3y8 document>>\nAll of it.\n<<end k3y8k3y8 document>>\n\n<<k3y8k3y8 passage>>\n';
    expect(first.startsWith(`${shared}One.\n<<end k3y8k3y8 passage>>`)).equal(true);
    expect(second.startsWith(`${shared}Two.`)).equal(true);
  });

  it('shows a short document whole, and the beginning and the surroundings of the passage of a long one', () => {
    const body = Array.from({ length: 1_000 }, (_, n) => `[${n}]`.padStart(10)).join('');
    expect(chunkContextExcerpt(body, 0, body.length)).equal(body);
    const excerpt = chunkContextExcerpt(body, 5_000, 1_000);
    expect(excerpt).include('[0]').and.include('[…]').and.include('[500]').and.not.include('[900]');
    expect(chunkContextExcerpt(body, 5_040, 1_000), 'the neighbour has the same excerpt').equal(excerpt);
    expect(chunkContextExcerpt(body, 100, 1_000)).equal(body.slice(0, 1_000));
    expect(chunkContextExcerpt(body, 9_999, 1_000)).include('[999]');
  });

  it('always includes the position of the passage and keeps to the length limit', () => {
    fc.assert(
      fc.property(fc.nat(20_000), fc.integer({ min: 40, max: 30_000 }), (position, maxLength) => {
        const body = 'x'.repeat(position).concat('!', 'x'.repeat(20_000 - position));
        const excerpt = chunkContextExcerpt(body, position, maxLength);
        expect(excerpt).include('!');
        expect(excerpt.length).at.most(maxLength + '\n[…]\n'.length);
      }),
    );
  });

  it('removes labels, quotes and delimiters around the answer', () => {
    const clean = (answer: string) => cleanChunkContext(answer, { tokens });
    expect(clean(' **Context:** "Of the\u200b handbook,\n the part on leave."\n')).equal(
      'Of the handbook, the part on leave.',
    );
    expect(clean('<<end k3y8k3y8 passage>> \n "" ')).equal('');
  });

  it('shortens a long answer to whole sentences within the token limit', () => {
    const clean = cleanChunkContext('It is of the handbook. '.repeat(60), { tokens });
    expect(clean).match(/^(It is of the handbook\. ?)+$/);
    expect(tokens.count(clean)).within(80, maxChunkContextTokens);
    expect(tokens.count(cleanChunkContext('and so on '.repeat(300), { tokens }))).within(90, maxChunkContextTokens);
  });
});
