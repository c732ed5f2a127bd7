import { type Command, readFlags } from './command.ts';
import { thisOperator } from './this-operator.ts';
import { notWhose, readWhose } from './whose.ts';

export const disableUser: Command = {
  takes: '<email or user id>',
  does: 'disables a user and ends their sessions; refuses for the last admin of an organization',
  examples: [['ada@acme.example', "the user's requests are refused within seconds"]],
  read: reader(true, {
    now: 'Disabled: all sessions of the user have ended.',
    already: 'The user is disabled already.',
  }),
};

export const enableUser: Command = {
  takes: '<email or user id>',
  does: 'enables a disabled user, who has to sign in again',
  examples: [['ada@acme.example', '']],
  read: reader(false, { now: 'Enabled: the user can sign in.', already: 'The user is not disabled.' }),
};

function reader(isDisabled: boolean, answers: { now: string; already: string }): Command['read'] {
  return (args) => {
    const read = readFlags(args, {});
    if ('wrong' in read) return read;
    const [text = '', ...more] = read.positionals;
    const whose = more.length === 0 ? readWhose(text) : undefined;
    if (whose === undefined) return { wrong: notWhose([text, ...more].join(' ')) };
    return async ({ operator }, { print }) => {
      const isChanged = await operator.setDisabled(thisOperator(), whose, isDisabled);
      print(isChanged ? answers.now : answers.already);
      return true;
    };
  };
}
