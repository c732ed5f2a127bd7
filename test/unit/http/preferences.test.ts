import { expect } from 'chai';
import { isNoCacheRequested, preferredWaitSeconds } from '#src/http/request/headers.ts';

describe('preferences of a client', () => {
  const waits: [header: string | undefined, seconds: number | null][] = [
    [undefined, null],
    ['', null],
    ['wait=0', 0],
    ['wait=30', 30],
    ['respond-async, wait=10', 10],
    ['respond-async; Wait = "7"', 7],
    ['wait=999999', 3_600],
    ['wait=-1', null],
    ['wait=soon', null],
    ['await=5', null],
  ];
  for (const [header, seconds] of waits) {
    it(`wait ${seconds} s for Prefer: ${header}`, () => {
      expect(preferredWaitSeconds(header)).equal(seconds);
    });
  }

  it('ask for fresh results only with no-cache', () => {
    const fresh = ['no-cache', 'No-Cache', 'max-age=0, no-cache'];
    const kept = [undefined, '', 'max-age=0', 'no-cache="field"', 'x-no-cache'];
    expect(fresh.map(isNoCacheRequested)).deep.equal([true, true, true]);
    expect(kept.map(isNoCacheRequested)).deep.equal(kept.map(() => false));
  });
});
