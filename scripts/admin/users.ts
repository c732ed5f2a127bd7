import type { EmailOrUserId, OperatorService } from '#src/modules/operator/operator.service.ts';
import { type Command, type CommandOutput, isUuid, readFlags, readUser, thisOperator } from './command.ts';
import { alignColumns } from './output.ts';

export const disableUserCommand: Command = {
  usage: '<email or user id>',
  description: 'disables a user and ends their sessions; refuses for the last admin of an organization',
  examples: [['ada@acme.example', "the user's requests are refused within seconds"]],
  read: setDisabled(true, {
    changed: 'Disabled: all sessions of the user have ended.',
    unchanged: 'The user is disabled already.',
  }),
};

export const enableUserCommand: Command = {
  usage: '<email or user id>',
  description: 'enables a disabled user, who has to sign in again',
  examples: [['ada@acme.example', '']],
  read: setDisabled(false, { changed: 'Enabled: the user can sign in.', unchanged: 'The user is not disabled.' }),
};

function setDisabled(isDisabled: boolean, answers: { changed: string; unchanged: string }): Command['read'] {
  return (args) => {
    const read = readFlags(args, {});
    if ('wrong' in read) return read;
    const user = readUser(read.positionals);
    if ('wrong' in user) return user;
    return async ({ operator }, { print }) => {
      const isChanged = await operator.setDisabled(thisOperator(), user, isDisabled);
      print(isChanged ? answers.changed : answers.unchanged);
      return true;
    };
  };
}

export const sessionsCommand: Command = {
  usage: '<email or user id> [--json] | --end all | --end <session id>',
  description: 'lists the sessions of a user, or ends them: their tokens stop working',
  examples: [
    ['ada@acme.example', 'newest first, with the last sign-in or refresh of each'],
    ['ada@acme.example --json', 'one object per line'],
    ['ada@acme.example --end all', 'the user has to sign in again'],
  ],
  read: (args) => {
    const read = readFlags(args, { json: { type: 'boolean' }, end: { type: 'string' } });
    if ('wrong' in read) return read;
    const { end, json = false } = read.values;
    const user = readUser(read.positionals);
    if ('wrong' in user) return user;
    if (end === undefined) return ({ operator }, { print }) => list(operator, user, { json, print });
    if (json) return { wrong: '--json cannot be combined with --end' };
    if (end !== 'all' && !isUuid(end))
      return { wrong: `"${end}" is not a session id: use --end all, or an id of the list` };
    return ({ operator }, { print }) => endSessions(operator, user, end === 'all' ? null : end, print);
  },
};

async function list(
  operator: OperatorService,
  user: EmailOrUserId,
  { json, print }: { json: boolean } & Pick<CommandOutput, 'print'>,
): Promise<boolean> {
  const found = await operator.listSessions(user);
  const rows = found.map(({ sessionId, state, createdAt, usedAt, expiresAt }) => ({
    session_id: sessionId,
    state,
    created_at: createdAt.toISOString(),
    used_at: usedAt.toISOString(),
    expires_at: expiresAt.toISOString(),
  }));
  if (json) for (const row of rows) print(JSON.stringify(row));
  else if (rows.length === 0) print('The user has no sessions.');
  else {
    const head = ['session', 'state', 'begun', 'used', 'expires'];
    for (const line of alignColumns([head, ...rows.map((row) => Object.values(row))])) print(line);
  }
  return true;
}

async function endSessions(
  operator: OperatorService,
  user: EmailOrUserId,
  sessionId: string | null,
  print: CommandOutput['print'],
): Promise<boolean> {
  const ended = await operator.endSessions(thisOperator(), user, sessionId);
  print(`Ended: ${ended.length}.`);
  if (sessionId === null || ended.length > 0) return true;
  const exists = (await operator.listSessions(user)).some((session) => session.sessionId === sessionId);
  print(exists ? 'The session had ended before.' : 'The user has no such session.');
  return exists;
}
