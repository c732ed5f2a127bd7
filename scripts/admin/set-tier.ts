import { tierField } from '#src/http/request/fields.ts';
import { type Command, readFlags } from './command.ts';
import { thisOperator } from './this-operator.ts';
import { isUuid } from './uuid.ts';

const tiers = tierField.options;

export const setTier: Command = {
  takes: `<organization id> ${tiers.join(' | ')}`,
  does: 'changes what an organization may have; what it has beyond that stays, and nothing comes to it',
  examples: [['01a20286-f472-72a2-a9c9-368f38795a17 pro', 'holds from the next request on']],
  read: (args) => {
    const read = readFlags(args, {});
    if ('wrong' in read) return read;
    const [orgId = '', word = '', ...more] = read.positionals;
    if (!isUuid(orgId)) return { wrong: `"${orgId}" is no organization's id, which is a UUID` };
    const tier = tiers.find((each) => each === word);
    if (tier === undefined) return { wrong: `"${word}" is no tier: ${tiers.join(', ')}` };
    if (more.length > 0) return { wrong: `"${more.join(' ')}" is not understood` };
    return async ({ operator }, { print }) => {
      const before = await operator.setTier(thisOperator(), orgId.toLowerCase(), tier);
      print(before === tier ? `It is ${tier} already.` : `It was ${before}, and is ${tier} now.`);
      return true;
    };
  },
};
