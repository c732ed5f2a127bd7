import { expect } from 'chai';
import { camelCaseKeys } from '#src/adapters/postgres/case-mapper.ts';

describe('the names of columns', () => {
  it('are renamed in rows, and not inside of values', () => {
    expect(camelCaseKeys([{ job_id: 1, start: { key_of: 2 } }])).deep.equal([{ jobId: 1, start: { key_of: 2 } }]);
  });

  it('plucked values stay as they are', () => {
    expect(camelCaseKeys(['a', null])).deep.equal(['a', null]);
    expect(camelCaseKeys([])).deep.equal([]);
  });

  it('a column that was plucked by the name of its property is refused', () => {
    expect(() => camelCaseKeys([undefined, undefined])).throw('pluck()');
  });
});
