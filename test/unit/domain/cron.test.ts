import { expect } from 'chai';
import { cronMinutesApart } from '#src/domain/cron.ts';

describe('cronMinutesApart', () => {
  for (const [text, apart] of [
    ['* * * * *', 1],
    ['*/2 * * * *', 2],
    ['*/25 * * * *', 10],
    ['0 4 * * *', 60],
    ['3,58 * * * *', 5],
    ['10-30/10 * * * *', 10],
    ['5/20 * * * *', 20],
    ['0-1 * * * *', 1],
  ] as const) {
    it(`is ${apart} for ${text}`, () => expect(cronMinutesApart(text)).equal(apart));
  }
});
