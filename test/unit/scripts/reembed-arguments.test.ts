import { expect } from 'chai';
import { readReembedArguments } from '../../../scripts/admin/reembed.ts';

const ORG_ID = '01a20286-f472-72a2-a9c9-368f38795a17';

describe('arguments of npm run admin -- reembed', () => {
  it('contain the organization and the action', () => {
    expect(readReembedArguments([ORG_ID.toUpperCase(), '--status'])).deep.equal({ orgId: ORG_ID, act: 'status' });
    const start = readReembedArguments([ORG_ID, '--model', 'embedding-3']);
    expect(start).deep.equal({ orgId: ORG_ID, act: 'start', model: 'embedding-3' });
  });

  const wrong: [says: RegExp, ...args: string[]][] = [
    [/^The organization id is missing/],
    [/^The organization id is missing/, '--status'],
    [/^"acme" is not an organization id, which is a UUID/, 'acme', '--status'],
    [/^--model needs the id of a model/, ORG_ID, '--model'],
    [/^A flag is missing/, ORG_ID],
    [/^Unexpected arguments/, ORG_ID, '--status', 'now'],
    [/^Unexpected arguments/, ORG_ID, '--stop'],
  ];
  for (const [says, ...args] of wrong) {
    it(`are refused with a message: ${args.join(' ') || 'none'}`, () => {
      const request = readReembedArguments(args);
      expect('wrong' in request && request.wrong).match(says);
    });
  }
});
