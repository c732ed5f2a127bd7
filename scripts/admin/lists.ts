import { type Command, isUuid, notAnOrganizationId, readFlags, unexpectedArguments } from './command.ts';
import { alignColumns } from './output.ts';

const MAX_ROWS = 10_000;

export const listOrganizationsCommand: Command = {
  usage: '[--json]',
  description: `lists the organizations with their ids, newest first, at most ${MAX_ROWS}`,
  examples: [
    ['', 'one line each, with up to three of its admins'],
    ['--json', 'one object per line'],
  ],
  read: (args) => {
    const read = readFlags(args, { json: { type: 'boolean' } });
    if ('wrong' in read) return read;
    if (read.positionals.length > 0) return unexpectedArguments(read.positionals);
    return async ({ operator }, { print }) => {
      const rows = (await operator.listOrganizations(MAX_ROWS)).map((each) => ({
        org_id: each.orgId,
        name: each.name,
        tier: each.tier,
        members: each.members,
        documents: each.documents,
        created_at: each.createdAt.toISOString(),
        deleted_at: each.deletedAt?.toISOString() ?? null,
        admins: each.admins,
      }));
      printRows(print, rows, { isJson: read.values.json === true, none: 'There are no organizations.' });
      return true;
    };
  },
};

export const listUsersCommand: Command = {
  usage: '[--org <id>] [--json]',
  description: `lists the users with their ids and organizations, at most ${MAX_ROWS}`,
  examples: [
    ['', 'all users, by organization'],
    ['--org 01a20286-f472-72a2-a9c9-368f38795a17', 'the members of one organization'],
    ['--json', 'one object per line'],
  ],
  read: (args) => {
    const read = readFlags(args, { org: { type: 'string' }, json: { type: 'boolean' } });
    if ('wrong' in read) return read;
    const { org, json } = read.values;
    if (read.positionals.length > 0) return unexpectedArguments(read.positionals);
    if (org !== undefined && !isUuid(org)) return notAnOrganizationId(org);
    return async ({ operator }, { print }) => {
      const found = await operator.listUsers({ orgId: org?.toLowerCase() ?? null, limit: MAX_ROWS });
      const rows = found.map((each) => ({
        user_id: each.userId,
        email: each.email,
        name: each.displayName,
        role: each.isOrgAdmin ? 'admin' : 'member',
        state: each.isDisabled ? 'disabled' : 'active',
        created_at: each.createdAt.toISOString(),
        org_id: each.orgId,
        organization: each.orgName,
      }));
      printRows(print, rows, { isJson: json === true, none: 'There are no users.' });
      return true;
    };
  },
};

type Row = Record<string, string | number | null | readonly string[]>;

function printRows(
  print: (line: string) => void,
  rows: readonly Row[],
  { isJson, none }: { isJson: boolean; none: string },
): void {
  const [first] = rows;
  if (isJson) for (const row of rows) print(JSON.stringify(row));
  else if (first === undefined) print(none);
  else {
    const cells = rows.map((row) => Object.values(row).map((value) => wordOf(value)));
    for (const line of alignColumns([Object.keys(first), ...cells])) print(line);
  }
}

const wordOf = (value: Row[string]): string =>
  value === null ? '-' : Array.isArray(value) ? value.join(', ') : String(value);
