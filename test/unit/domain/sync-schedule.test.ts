import { expect } from 'chai';
import { cronMatchesSomeDate, smallestCronIntervalMinutes } from '#src/domain/documents/sync-schedule.ts';

describe('smallestCronIntervalMinutes', () => {
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
    it(`finds ${apart} minutes between the closest two runs of "${text}"`, () =>
      expect(smallestCronIntervalMinutes(text)).equal(apart));
  }
});

describe('cronMatchesSomeDate', () => {
  for (const [text, has] of [
    ['0 0 * * *', true],
    ['0 0 29 2 *', true],
    ['0 0 30 2 *', false],
    ['0 0 31 4,6,9,11 *', false],
    ['0 0 31 4-5 *', true],
    ['0 0 30-31 */2 1', true],
    ['0 0 31 2/2 *', true],
    ['0 0 31 2/9 *', false],
  ] as const) {
    it(`finds ${has ? 'a' : 'no'} day on which "${text}" runs`, () => expect(cronMatchesSomeDate(text)).equal(has));
  }
});
