import type { Knex } from 'knex';
import { oneRow } from '#src/adapters/postgres/shapes.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { type Period, type PeriodPart, periodParts, roundTotals } from '#src/domain/alignment/chat-logs.ts';
import { isWithin, reach, reachValues } from './log-reach.ts';
import { echoStates, type LogSums, logSums, type SumsFilter } from './logs.model.ts';

const columns = [...echoStates.map((state) => `${state}_chats`), ...roundTotals];
const ofTotals = columns.map((column) => `t.${column}`).join(', ');
const ofOneChat = [
  ...echoStates.map((state) => `(l.state = '${state}')::integer as ${state}_chats`),
  ...roundTotals.map((column) => `l.${column}`),
].join(', ');
const sumOf = (column: string) => `coalesce(sum(${column}), 0)`;
const ofAll = [
  `jsonb_build_object(${echoStates.map((state) => `'${state}', ${sumOf(`${state}_chats`)}`).join(', ')}) as chats`,
  ...roundTotals.map((column) => `${sumOf(column)} as ${column}`),
].join(', ');

/**
 * Sums over what a reader may read, exact in every snapshot, which triggers keep: no round is looked at, and of chats
 * only those of the days on which a period begins and ends.
 */
export function createLogSumsRepository(db: Knex) {
  return {
    async sum(actor: Actor, { agentId, period }: SumsFilter): Promise<LogSums> {
      const values: Record<string, unknown> = { ...reachValues(actor), ...(agentId !== undefined && { agentId }) };
      const ofAgent = (table: string) => (agentId === undefined ? '' : `and ${table}.agent_id = :agentId`);
      const name = (at: Date): string => {
        const known = `at${at.getTime()}`.replace('-', 'before');
        values[known] = at.toISOString();
        return `:${known}::timestamptz`;
      };
      const chats = (whose: string, { from, until }: Period) =>
        [
          // The offset keeps it a look into an index for each row of the reach, of which there may be none.
          `select one.* from (select * from reach where ${whose}) r cross join lateral (
             select ${ofOneChat} from chat_logs l where ${isWithin} ${ofAgent('l')}`,
          from && `and l.started_at >= ${name(from)}`,
          until && `and l.started_at < ${name(until)}`,
          'offset 0) one',
        ].join(' ');
      const totals = ({ span, from, until }: PeriodPart) =>
        [
          `select ${ofTotals} from reach r
           join log_totals t on t.org_id = :orgId and t.audience_hash = r.audience_hash and t.audience && :acl::text[]
           where r.author is null and t.span = '${span}' ${ofAgent('t')}`,
          from && `and t.starts_on >= (${name(from)} at time zone 'utc')::date`,
          until && `and t.starts_on < (${name(until)} at time zone 'utc')::date`,
        ].join(' ');
      const parts = periodParts(period).map((part) =>
        part.span === 'moment' ? chats('author is null', part) : totals(part),
      );
      return oneRow(
        db,
        logSums,
        `with recursive ${reach}
         select ${ofAll} from (${[...parts, chats('author is not null', period)].join(' union all ')}) part`,
        values,
      );
    },
  };
}
