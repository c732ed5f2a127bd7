import { type Command, readFlags } from './command.ts';
import { thisOperator } from './this-operator.ts';
import { notWhose, readWhose } from './whose.ts';

export const disableUser: Command = {
  takes: '<email or user id>',
  does: 'lets a user in no more, and ends his sessions; not the last admin of an organization',
  examples: [['ada@acme.example', 'his requests are refused within seconds']],
  read: reader(true, { now: 'Disabled: his sessions have ended.', already: 'He is disabled already.' }),
};

export const enableUser: Command = {
  takes: '<email or user id>',
  does: 'lets a disabled user in again; he has to sign in anew',
  examples: [['ada@acme.example', '']],
  read: reader(false, { now: 'Enabled: he can sign in.', already: 'He is not disabled.' }),
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
