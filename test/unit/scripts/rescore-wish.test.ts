import { expect } from 'chai';
import { readRescoreWish } from '../../../scripts/admin/rescore-wish.ts';

const orgId = '019f0000-0000-7000-8000-00000000000a';

describe('what is to be scored again', () => {
  it('is all, or what is of one organization', () => {
    expect(readRescoreWish(['--all'])).deep.equal({ orgId: null, act: 'start' });
    expect(readRescoreWish([orgId.toUpperCase()])).deep.equal({ orgId, act: 'start' });
    expect(readRescoreWish([orgId, '--status'])).deep.equal({ orgId, act: 'status' });
    expect(readRescoreWish(['--all', '--status'])).deep.equal({ orgId: null, act: 'status' });
  });

  for (const args of [[], ['loans'], ['--status'], ['--all', '--now'], [orgId, '--status', 'more']]) {
    it(`is not "${args.join(' ')}"`, () => expect(readRescoreWish(args)).to.have.property('wrong'));
  }
});
