import { expect } from 'chai';
import { readReembedWish } from '../../../scripts/admin/reembed-wish.ts';

const ORG_ID = '01a20286-f472-72a2-a9c9-368f38795a17';

describe('arguments of a re-embedding', () => {
  it('name the organization and what to do', () => {
    expect(readReembedWish([ORG_ID.toUpperCase(), '--status'])).deep.equal({ orgId: ORG_ID, act: 'status' });
    const start = readReembedWish([ORG_ID, '--model', 'embedding-3']);
    expect(start).deep.equal({ orgId: ORG_ID, act: 'start', model: 'embedding-3' });
  });

  const wrong: [says: RegExp, ...args: string[]][] = [
    [/^The organization's id is missing/],
    [/^The organization's id is missing/, '--status'],
    [/^"acme" is no organization's id, which is a UUID/, 'acme', '--status'],
    [/^--model needs a model's id/, ORG_ID, '--model'],
    [/^What to do is missing/, ORG_ID],
    [/^That is not understood/, ORG_ID, '--status', 'now'],
    [/^That is not understood/, ORG_ID, '--stop'],
  ];
  for (const [says, ...args] of wrong) {
    it(`are refused in words: ${args.join(' ') || 'none'}`, () => {
      const wish = readReembedWish(args);
      expect('wrong' in wish && wish.wrong).match(says);
    });
  }
});
