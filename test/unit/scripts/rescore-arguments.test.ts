import { expect } from 'chai';
import { readRescoreArguments } from '../../../scripts/admin/rescore.ts';

const orgId = '019f0000-0000-7000-8000-00000000000a';

describe('arguments of npm run admin -- rescore', () => {
  it('select all organizations or one', () => {
    expect(readRescoreArguments(['--all'])).deep.equal({ orgId: null, act: 'start' });
    expect(readRescoreArguments([orgId.toUpperCase()])).deep.equal({ orgId, act: 'start' });
    expect(readRescoreArguments([orgId, '--status'])).deep.equal({ orgId, act: 'status' });
    expect(readRescoreArguments(['--all', '--status'])).deep.equal({ orgId: null, act: 'status' });
  });

  for (const args of [[], ['loans'], ['--status'], ['--all', '--now'], [orgId, '--status', 'more']]) {
    it(`are refused: "${args.join(' ')}"`, () => expect(readRescoreArguments(args)).to.have.property('wrong'));
  }
});
