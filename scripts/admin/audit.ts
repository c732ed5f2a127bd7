import type { Container } from '#src/container.ts';
import {
  type Command,
  type CommandOutput,
  isUuid,
  notAnOrganizationId,
  readFlags,
  readUser,
  unexpectedArguments,
} from './command.ts';
import { alignColumns } from './output.ts';

const MAX_ROWS = 10_000;
const DEFAULT_ROWS = '100';
const unitsMs = { m: 60_000, h: 3_600_000, d: 86_400_000 };

type AuditFilters = Parameters<Container['audit']['list']>[0];

export const auditCommand: Command = {
  usage: '[--org <id>] [--user <email or id>] [--action <prefix>] [--since <time or 7d>] [--limit <rows>] [--json]',
  description: `prints the audit log, newest first, ${DEFAULT_ROWS} rows unless --limit is given`,
  examples: [
    ['--user ada@acme.example --since 7d', 'actions by Ada and on her account in the last seven days'],
    ['--action session.refused --since 2026-11-22T08:00Z', 'refused sign-ins since then'],
    ['--org 01a20286-f472-72a2-a9c9-368f38795a17 --limit 10000 --json', 'one object per line'],
  ],
  read: (args) => {
    const text = { type: 'string' } as const;
    const options = {
      org: text,
      user: text,
      action: text,
      since: text,
      limit: text,
      json: { type: 'boolean' },
    } as const;
    const read = readFlags(args, options);
    if ('wrong' in read) return read;
    const { org, user, action, since, limit: rows = DEFAULT_ROWS, json = false } = read.values;
    if (read.positionals.length > 0) return unexpectedArguments(read.positionals);
    if (org !== undefined && !isUuid(org)) return notAnOrganizationId(org);
    const whose = user === undefined ? undefined : readUser([user]);
    if (whose !== undefined && 'wrong' in whose) return whose;
    const from = since === undefined ? undefined : readTimeOrAge(since, new Date());
    if (from === null) return { wrong: `"${since}" is not a time such as 30m, 12h, 7d or 2026-11-22T08:00Z` };
    const limit = Number(rows);
    if (!/^\d+$/.test(rows) || limit < 1 || limit > MAX_ROWS)
      return { wrong: `--limit must be a number from 1 to ${MAX_ROWS}` };

    return async ({ audit: log, operator }, { print }) => {
      // A deleted user no longer has an email, but can be found by user id.
      const userId = whose && ('userId' in whose ? whose.userId : (await operator.find(whose)).userId);
      return show(log, { orgId: org?.toLowerCase(), userId, action, since: from }, { limit, json, print });
    };
  },
};

async function show(
  log: Container['audit'],
  filters: AuditFilters,
  { limit, json, print }: { limit: number; json: boolean } & Pick<CommandOutput, 'print'>,
): Promise<boolean> {
  const rows = await log.list(filters, limit);
  for (const row of json ? rows : []) {
    const { id, at, orgId, orgName, actorId, actorEmail, action, target, targetEmail, detail, requestId } = row;
    const who = { org_id: orgId, org_name: orgName, actor_id: actorId, actor_email: actorEmail };
    print(JSON.stringify({ id, at, ...who, action, target, target_email: targetEmail, detail, request_id: requestId }));
  }
  if (json) return true;
  if (rows.length === 0) print('No entries match.');
  const words = rows.map(({ at, action, orgName, actorId, actorEmail, target, targetEmail, detail }) => {
    const more = Object.entries(detail ?? {}).map(([name, value]) => `${name}=${value}`);
    const on = [target ?? '-', ...(targetEmail === null ? [] : [targetEmail])].join(' ');
    return [at.toISOString(), action, orgName ?? '-', actorEmail ?? actorId ?? '-', on, more.join(' ')];
  });
  const lines = words.length > 0 ? alignColumns([['at', 'action', 'organization', 'by', 'on', ''], ...words]) : [];
  for (const line of lines) print(line);
  return true;
}

export function readTimeOrAge(text: string, now: Date): Date | null {
  const [, count, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? [];
  if (count !== undefined && (unit === 'm' || unit === 'h' || unit === 'd')) {
    return new Date(now.getTime() - Number(count) * unitsMs[unit]);
  }
  const moment = /^\d{4}-\d\d-\d\d/.test(text) ? new Date(text) : new Date(Number.NaN);
  return Number.isNaN(moment.getTime()) ? null : moment;
}
