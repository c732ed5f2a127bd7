import { emailField, nameField, newPasswordField } from '#src/http/request/fields.ts';
import { newPassword } from '../secrets.ts';
import { StartFailure } from '../supervisor/start-failure.ts';
import { askLine } from './ask-line.ts';
import { type Command, readFlags } from './command.ts';
import { thisOperator } from './this-operator.ts';

/** The password is never an argument: other users of the machine see arguments, and shells keep them. */
export const createOrganization: Command = {
  takes: '<name> --admin <email> [--ask-password]',
  does: 'makes an organization and its first user, who is its admin; the password is shown once, or read from the terminal or the standard input with --ask-password',
  examples: [
    ["'Acme Inc.' --admin ada@acme.example", 'prints the ids and a password to be told to Ada'],
    ["'Acme Inc.' --admin ada@acme.example --ask-password < password.txt", 'takes the first line of the file'],
  ],
  read: (args) => {
    const read = readFlags(args, { admin: { type: 'string' }, 'ask-password': { type: 'boolean' } });
    if ('wrong' in read) return read;
    const [given, ...more] = read.positionals;
    if (given === undefined) return { wrong: "The organization's name is missing" };
    if (more.length > 0)
      return { wrong: `"${more.join(' ')}" is not understood: a name of several words needs quotes` };
    const name = nameField.safeParse(given);
    if (!name.success) return { wrong: `"${given}" is no name: one line of 200 characters at most` };
    const email = emailField.safeParse(read.values.admin ?? '');
    if (!email.success) return { wrong: "--admin needs an email: that of the organization's first user" };
    const isAsked = read.values['ask-password'] === true;
    return async ({ operator }, { print, written }) => {
      const password = isAsked
        ? sound(await askLine(`Password of ${email.data}: `, { isSecret: true }))
        : newPassword();
      const founder = { name: name.data, email: email.data, password };
      // Printed first: if the output failed later, the password would be lost and the account unusable.
      if (!isAsked) print(`password ${password}`);
      await written();
      const { orgId, userId } = await operator.createOrganization(thisOperator(), founder);
      print(`organization ${orgId}`);
      print(`admin ${userId} ${email.data}`);
      return true;
    };
  },
};

function sound(password: string): string {
  const { error } = newPasswordField.safeParse(password);
  if (error === undefined) return password;
  throw new StartFailure(`${error.issues.map(({ message }) => message).join('. ')}.`);
}
