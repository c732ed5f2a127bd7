import { expect } from 'chai';
import { type ByteRange, parseByteRange } from '#src/http/request/headers.ts';

describe('parseByteRange', () => {
  const cases: [string | undefined, ByteRange | null | undefined][] = [
    [undefined, undefined],
    ['bytes=0-3', { start: 0, end: 3 }],
    ['bytes=4-', { start: 4, end: 9 }],
    ['bytes=-3', { start: 7, end: 9 }],
    ['bytes=-30', { start: 0, end: 9 }],
    ['bytes=4-400', { start: 4, end: 9 }],
    ['bytes=10-', null],
    ['bytes=-0', null],
    ['bytes=5-4', undefined],
    ['bytes=-', undefined],
    ['bytes=0-1,4-5', undefined],
    ['lines=0-1', undefined],
  ];
  for (const [header, range] of cases) {
    it(`reads ${header ?? 'no header'} of ten bytes as ${range ? `${range.start} to ${range.end}` : range}`, () => {
      expect(parseByteRange(header, 10)).to.deep.equal(range);
    });
  }

  it('returns no range for an empty file', () => {
    expect(parseByteRange('bytes=0-', 0)).to.equal(null);
    expect(parseByteRange('bytes=-5', 0)).to.equal(null);
  });
});
