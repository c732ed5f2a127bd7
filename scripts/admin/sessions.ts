import type { OperatorService, UserReference } from '#src/modules/operator/operator.service.ts';
import { columns } from './columns.ts';
import { type Command, readFlags, type Say } from './command.ts';
import { thisOperator } from './this-operator.ts';
import { isUuid } from './uuid.ts';
import { notWhose, readWhose } from './whose.ts';

export const sessions: Command = {
  takes: '<email or user id> [--json] | --end all | --end <session id>',
  does: "lists a user's sessions, or ends them: their tokens no longer work",
  examples: [
    ['ada@acme.example', 'newest first, with the last sign-in or refresh of each'],
    ['ada@acme.example --json', 'one object a line'],
    ['ada@acme.example --end all', 'and the user has to sign in again'],
  ],
  read: (args) => {
    const read = readFlags(args, { json: { type: 'boolean' }, end: { type: 'string' } });
    if ('wrong' in read) return read;
    const { end, json = false } = read.values;
    const [text = '', ...more] = read.positionals;
    const whose = more.length === 0 ? readWhose(text) : undefined;
    if (whose === undefined) return { wrong: notWhose([text, ...more].join(' ')) };
    if (end === undefined) return ({ operator }, { print }) => list(operator, whose, { json, print });
    if (json) return { wrong: '--json is for lists' };
    if (end !== 'all' && !isUuid(end)) return { wrong: `"${end}" is no session's id: --end all, or one of the list` };
    return ({ operator }, { print }) => endSessions(operator, whose, end === 'all' ? null : end, print);
  },
};

async function list(
  operator: OperatorService,
  whose: UserReference,
  { json, print }: { json: boolean } & Pick<Say, 'print'>,
): Promise<boolean> {
  const found = await operator.listSessions(whose);
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
    for (const line of columns([head, ...rows.map((row) => Object.values(row))])) print(line);
  }
  return true;
}

async function endSessions(
  operator: OperatorService,
  whose: UserReference,
  sessionId: string | null,
  print: Say['print'],
): Promise<boolean> {
  const ended = await operator.endSessions(thisOperator(), whose, sessionId);
  print(`Ended: ${ended.length}.`);
  if (sessionId === null || ended.length > 0) return true;
  const exists = (await operator.listSessions(whose)).some((session) => session.sessionId === sessionId);
  print(exists ? 'It was ended before.' : 'The user has no such session.');
  return exists;
}
