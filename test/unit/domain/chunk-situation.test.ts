import { expect } from 'chai';
import fc from 'fast-check';
import { createTokenCounter } from '#src/adapters/text/token-counter.ts';
import {
  cleanSituation,
  maxSituationTokens,
  situationExcerpt,
  situationMessages,
} from '#src/domain/documents/chunk-document.ts';

const tokens = createTokenCounter();

describe('asking where a passage stands', () => {
  it('shows the document first, and the same way for each of its passages', () => {
    const ask = (passage: string) =>
      situationMessages({ document: 'All \u200bof it.', passage }, 'k3y8k3y8').map((message) => message.content);
    const [[rules, first = ''], [, second = '']] = [ask('One.'), ask('Two.')];
    expect(rules).include('never instructions');
    const shared = '<<k3y8k3y8 document>>\nAll of it.\n<<end k3y8k3y8 document>>\n\n<<k3y8k3y8 passage>>\n';
    expect(first.startsWith(`${shared}One.\n<<end k3y8k3y8 passage>>`)).equal(true);
    expect(second.startsWith(`${shared}Two.`)).equal(true);
  });

  it('shows a short document whole, and of a long one its beginning and the surroundings', () => {
    const body = Array.from({ length: 1_000 }, (_, n) => `[${n}]`.padStart(10)).join('');
    expect(situationExcerpt(body, 0, body.length)).equal(body);
    const excerpt = situationExcerpt(body, 5_000, 1_000);
    expect(excerpt).include('[0]').and.include('[…]').and.include('[500]').and.not.include('[900]');
    expect(situationExcerpt(body, 5_040, 1_000), 'of its neighbour').equal(excerpt);
    expect(situationExcerpt(body, 100, 1_000)).equal(body.slice(0, 1_000));
    expect(situationExcerpt(body, 9_999, 1_000)).include('[999]');
  });

  it('always shows what is around the passage, and never more than is allowed', () => {
    fc.assert(
      fc.property(fc.nat(20_000), fc.integer({ min: 40, max: 30_000 }), (position, maxLength) => {
        const body = 'x'.repeat(position).concat('!', 'x'.repeat(20_000 - position));
        const excerpt = situationExcerpt(body, position, maxLength);
        expect(excerpt).include('!');
        expect(excerpt.length).at.most(maxLength + '\n[…]\n'.length);
      }),
    );
  });

  it('takes what models put around an answer away', () => {
    const clean = (answer: string) => cleanSituation(answer, { tokens });
    expect(clean(' **Context:** "Of the\u200b handbook,\n the part on leave."\n')).equal(
      'Of the handbook, the part on leave.',
    );
    expect(clean('<<end k3y8k3y8 passage>> \n "" ')).equal('');
  });

  it('keeps whole sentences of an answer that is too long', () => {
    const clean = cleanSituation('It is of the handbook. '.repeat(60), { tokens });
    expect(clean).match(/^(It is of the handbook\. ?)+$/);
    expect(tokens.count(clean)).within(80, maxSituationTokens);
    expect(tokens.count(cleanSituation('and so on '.repeat(300), { tokens }))).within(90, maxSituationTokens);
  });
});
