import type { Knex } from 'knex';
import { bigint, text } from '#src/adapters/postgres/columns.ts';
import { toPage } from '#src/adapters/postgres/keyset.ts';
import { firstRow, oneRow, rows, shape } from '#src/adapters/postgres/shapes.ts';
import type { ListPosition } from '#src/contracts/list-position.ts';
import type { Actor } from '#src/domain/access/visibility.ts';
import { roundTotals } from '#src/domain/alignment/chat-logs.ts';
import { isWithin, reach, reachValues } from './log-reach.ts';
import {
  type LogFilter,
  type LoggedAgent,
  type LoggedChat,
  loggedAgent,
  type RecentChat,
  recentChat,
  type Session,
  session,
} from './logs.model.ts';

type Page = { limit: number; after: ListPosition | null };
type LoggedPage = { items: LoggedChat[]; last: ListPosition | null };

const listedSession = shape({ ...session.columns, sortKey: text() });
const counted = shape({ total: bigint() });

/** So many of the newest chats are looked through for words before an index is asked for all that have them. */
const walkedChats = 200;
/** More than a description shows. */
const firstWordsRead = 1_000;

const newestFirst = 'order by started_at desc, chat_id desc';
const asked = 'wanted_words(:orgId, :words)';

/** A page `page` of chats with all that is shown of them. Who may read them is asked once more here. */
const shown = `
  select c.id, c.title, coalesce(left(first.user_content, ${firstWordsRead}), '') as first_words,
         c.agent_id, a.agent_name, coalesce(newest.model, a.chat_model) as model,
         l.started_at, ${roundTotals.map((column) => `l.${column}`).join(', ')}
  from page
  join chat_logs l using (chat_id)
  join chats c on c.id = l.chat_id
  join agents a on a.org_id = c.org_id and a.id = c.agent_id
  left join rounds first on first.chat_id = c.id and first.round = 1
  left join rounds newest on newest.chat_id = c.id and newest.round = c.round_count
  where c.org_id = :orgId and c.acl && :acl::text[]`;

/**
 * Conversations as the logs list them: in the order in which they began, which never changes, so that no page loses or
 * repeats one that goes on meanwhile. Each set of keys is read by an index in this order.
 */
export function createConversationsRepository(db: Knex) {
  const conditions = ({ agentId, state, period: { from, until } }: LogFilter, after: ListPosition | null = null) =>
    [
      agentId !== undefined && 'and l.agent_id = :agentId',
      state !== undefined && 'and l.state = :state',
      from !== null && 'and l.started_at >= :from',
      until !== null && 'and l.started_at < :until',
      after !== null && 'and (l.started_at, l.chat_id) < (:sortKey, :id)',
    ]
      .filter((condition) => condition !== false)
      .join(' ');
  const valuesOf = (actor: Actor, { agentId, state, period, words }: LogFilter) => ({
    ...{ ...reachValues(actor), agentId, state, words },
    ...{ from: period.from?.toISOString(), until: period.until?.toISOString() },
  });

  /** The newest of each set of keys, of all of which the newest. */
  const walk = (where: string, limit: string) => `
    select newest.* from reach r cross join lateral (
      select l.chat_id, l.started_at from chat_logs l where ${isWithin} ${where} ${newestFirst} limit ${limit}
    ) newest ${newestFirst} limit ${limit}`;
  /** The offset keeps the index of words out of it, which would be asked anew for each chat. */
  const walkWithWords = (where: string) => `
    select w.* from (${walk(where, String(walkedChats))}) w
    cross join lateral (
      select from (select words from log_texts t where t.chat_id = w.chat_id offset 0) t where t.words @@ ${asked} limit 1
    ) found
    ${newestFirst} limit :limit`;
  /** The offset keeps it a look for each that was found, instead of one at all that there are. */
  const allWithWords = (where: string) => `
    select l.chat_id, l.started_at
    from (select distinct chat_id from log_texts where org_id = :orgId and words @@ ${asked}) found
    cross join lateral (select * from chat_logs l where l.chat_id = found.chat_id ${where} offset 0) l
    where exists (select from reach r where ${isWithin})`;

  /** Nothing where the walk has seen all: what a search takes must not tell of chats that its reader may not see. */
  const unlessWalked = (where: string) => `
    select * from (${allWithWords(where)}) found
    where (select count(*) from (${walk(where, String(walkedChats))}) walked) = ${walkedChats}`;

  async function read(actor: Actor, filter: LogFilter, { limit, after }: Page, page: string): Promise<LoggedPage> {
    const listed = await rows(
      db,
      listedSession,
      `with recursive ${reach}, page as (${page})
       select shown.*, to_char(started_at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as sort_key
       from (${shown}) shown order by started_at desc, id desc`,
      { ...valuesOf(actor, filter), ...after, limit: limit + 1 },
    );
    return toPage(listed, limit);
  }

  return {
    async list(actor: Actor, filter: LogFilter, page: Page): Promise<LoggedPage> {
      const where = conditions(filter, page.after);
      if (filter.words === undefined) return read(actor, filter, page, walk(where, ':limit'));
      const near = await read(actor, filter, page, walkWithWords(where));
      if (near.last !== null) return near;
      // What is rare is not among them, or not often enough.
      const all = await read(actor, filter, page, `${unlessWalked(where)} ${newestFirst} limit :limit`);
      return all.items.length > 0 ? all : near;
    },

    /** Of a search for words; all else has sums. */
    async countWithWords(actor: Actor, filter: LogFilter): Promise<number> {
      const { total } = await oneRow(
        db,
        counted,
        `with recursive ${reach} select count(*) as total from (${allWithWords(conditions(filter))}) found`,
        valuesOf(actor, filter),
      );
      return total;
    },

    async find(actor: Actor, chatId: string): Promise<Session | undefined> {
      return firstRow(
        db,
        session,
        `with page as (select chat_id from chat_logs where org_id = :orgId and chat_id = :chatId) ${shown}`,
        { ...reachValues(actor), chatId },
      );
    },

    async listRecent(actor: Actor, { limit, mine }: { limit: number; mine: boolean }): Promise<RecentChat[]> {
      const order = 'order by updated_at desc, chat_id desc limit :limit';
      const columns = 'l.chat_id, l.updated_at';
      const page = mine
        ? `select ${columns} from chat_logs l where l.org_id = :orgId and l.created_by = :userId ${order}`
        : `select newest.* from reach r
           cross join lateral (select ${columns} from chat_logs l where ${isWithin} ${order}) newest ${order}`;
      return rows(
        db,
        recentChat,
        `with recursive ${reach}, page as (${page})
         select c.id, c.title, c.updated_at from page join chats c on c.id = page.chat_id
         where c.org_id = :orgId and c.acl && :acl::text[] order by c.updated_at desc, c.id desc`,
        { ...reachValues(actor), limit },
      );
    },

    /** Those that chats can be read of, deleted ones too, by name. */
    async listAgents(actor: Actor): Promise<LoggedAgent[]> {
      return rows(
        db,
        loggedAgent,
        `with recursive ${reach}
         select a.id, a.agent_name as name from agents a
         where a.org_id = :orgId and a.id in (
           select t.agent_id from reach r
           join log_totals t on t.org_id = :orgId and t.audience_hash = r.audience_hash and t.audience && :acl::text[]
           where r.author is null and t.span = 'ever' group by t.agent_id having sum(t.chats) > 0
           union all
           select one.* from (select * from reach where author is not null) r
           cross join lateral (select l.agent_id from chat_logs l where ${isWithin} offset 0) one
         )
         order by lower(a.agent_name), a.id`,
        reachValues(actor),
      );
    },
  };
}
