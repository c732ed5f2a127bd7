import type { Knex } from 'knex';
import { listSortKeySql, toListPage } from '#src/adapters/postgres/keyset.ts';
import {
  bigintColumn,
  defineRowShape,
  integerColumn,
  queryFirstRow,
  queryOneRow,
  queryRows,
  type SqlRow,
  textColumn,
} from '#src/adapters/postgres/shapes.ts';
import type { ListPosition } from '#src/contracts/request-data.ts';
import { type Actor, accessKeysOfActor } from '#src/domain/access/visibility.ts';
import { echoStates } from '#src/domain/alignment/chat-state.ts';
import {
  namesOfRoundTotals,
  type ReportPeriod,
  type ReportPeriodPart,
  splitReportPeriod,
} from '#src/domain/alignment/log-totals.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';
import {
  type LogFilter,
  type LoggedAgent,
  type LoggedChat,
  type LoggedChatWithTotals,
  type LoggedRoundDetail,
  type LoggedRoundPage,
  type LogStats,
  type LogStatsFilter,
  loggedAgentRowShape,
  loggedRoundDetailRowShape,
  loggedRoundRowShape,
  loggedSessionRowShape,
  logStatsRowShape,
  type RecentChat,
  recentChatRowShape,
  type TrendPoint,
  trendPointRowShape,
} from './logs.model.ts';

/**
 * Common table expressions for `with recursive`. `reach` lists the sets of access keys whose chats the caller can read.
 * If `author` is set, the caller can read only their own chats of the set, such as those of a team that they have left.
 * Sets are compared by hash, so queries that return chats check each chat's access keys too.
 */
const reach = `
  opened as materialized (
    select distinct audience_hash from log_totals
    where org_id = :orgId and span = 'ever' and audience && :acl::text[]
  ),
  own (audience_hash) as (
    select min(audience_hash) from chat_logs where org_id = :orgId and created_by = :userId
    union all
    select (select min(l.audience_hash) from chat_logs l
            where l.org_id = :orgId and l.created_by = :userId and l.audience_hash > own.audience_hash)
    from own where own.audience_hash is not null
  ),
  reach as materialized (
    select audience_hash, null::uuid as author from opened
    union all
    select audience_hash, :userId::uuid from own
    where audience_hash is not null and audience_hash not in (select audience_hash from opened)
  )`;

const isWithin = `l.org_id = :orgId and l.audience_hash = r.audience_hash
  and (r.author is null or l.created_by = r.author)`;

const reachValues = (actor: Actor) => ({ orgId: actor.orgId, userId: actor.userId, acl: accessKeysOfActor(actor) });

type Page = { limit: number; after: ListPosition | null };
type LoggedPage = { items: LoggedChat[]; last: ListPosition | null };

const listedSession = defineRowShape({ ...loggedSessionRowShape.columns, sortKey: textColumn() });
const counted = defineRowShape({ total: bigintColumn() });

/** Number of newest chats that are checked for the search words before the full-text index is used. */
const walkedChats = 200;
const firstWordsRead = 1_000;

const orderNewestFirst = 'order by started_at desc, chat_id desc';
const asked = 'wanted_words(:orgId, :words)';

const shown = `
  select c.id, c.title, coalesce(left(first.user_content, ${firstWordsRead}), '') as first_words,
         c.agent_id, coalesce(a.agent_name, v.agent_name) as agent_name, c.draft_version_id is not null as is_draft,
         coalesce(newest.model, a.chat_model, '') as model,
         l.started_at, ${namesOfRoundTotals.map((column) => `l.${column}`).join(', ')}
  from page
  join chat_logs l using (chat_id)
  join chats c on c.id = l.chat_id
  left join agents a on a.org_id = c.org_id and a.id = c.published_agent_id
  left join draft_versions v on v.org_id = c.org_id and v.id = c.draft_version_id
  left join rounds first on first.chat_id = c.id and first.round = 1
  left join rounds newest on newest.chat_id = c.id and newest.round = c.round_count
  where c.org_id = :orgId and c.acl && :acl::text[]`;

const ownDrafts = 'array(select id from drafts where org_id = :orgId and created_by = :userId)';

const statColumns = [...echoStates.map((state) => `${state}_chats`), ...namesOfRoundTotals];
const ofTotals = statColumns.map((column) => `t.${column}`).join(', ');
const ofOneChat = [
  ...echoStates.map((state) => `(l.state = '${state}')::integer as ${state}_chats`),
  ...namesOfRoundTotals.map((column) => `l.${column}`),
].join(', ');
const totalOf = (column: string) => `coalesce(sum(${column}), 0)`;
const ofAll = [
  `jsonb_build_object(${echoStates.map((state) => `'${state}', ${totalOf(`${state}_chats`)}`).join(', ')}) as chats`,
  ...namesOfRoundTotals.map((column) => `${totalOf(column)} as ${column}`),
].join(', ');

const sized = defineRowShape({ round: integerColumn(), bytes: integerColumn() });
const roundColumns = Object.keys(loggedRoundRowShape.columns);

/** Maximum size in bytes of the texts on a page of rounds; a single round may exceed it. */
const pageBytes = 4 * 1024 * 1024;

function endOfPage(sizes: readonly SqlRow<typeof sized>[]): number | undefined {
  let bytes = 0;
  const full = sizes.find((size) => {
    bytes += size.bytes;
    return bytes >= pageBytes;
  });
  return (full ?? sizes.at(-1))?.round;
}

/**
 * Reads the logs of chats that a user can read. Chats are listed by their start time, which never changes, so that
 * pages neither repeat nor skip a chat that gets new messages. An index has this order for each set of access keys.
 */
export function createLogsRepository(db: Knex) {
  const roundsOf = (chatId: string) => RoundModel.table(db).where({ chatId });
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

  const walk = (where: string, limit: string) => `
    select newest.* from reach r cross join lateral (
      select l.chat_id, l.started_at from chat_logs l where ${isWithin} ${where} ${orderNewestFirst} limit ${limit}
    ) newest ${orderNewestFirst} limit ${limit}`;
  /**
   * `offset 0` makes Postgres' planner read the words of each chat instead of searching the full-text index again for
   * each chat.
   */
  const walkWithWords = (where: string) => `
    select w.* from (${walk(where, String(walkedChats))}) w
    cross join lateral (
      select from (select words from log_texts t where t.chat_id = w.chat_id offset 0) t where t.words @@ ${asked} limit 1
    ) found
    ${orderNewestFirst} limit :limit`;
  /** `offset 0` makes Postgres look up the chat of each match instead of scanning the logs of all chats. */
  const allWithWords = (where: string) => `
    select l.chat_id, l.started_at
    from (select distinct chat_id from log_texts where org_id = :orgId and words @@ ${asked}) found
    cross join lateral (select * from chat_logs l where l.chat_id = found.chat_id ${where} offset 0) l
    where exists (select from reach r where ${isWithin})`;

  /**
   * Searches the full-text index only if there are more readable chats than `walk` reads: otherwise the response time
   * would reveal matches in unreadable chats.
   */
  const unlessWalked = (where: string) => `
    select * from (${allWithWords(where)}) found
    where (select count(*) from (${walk(where, String(walkedChats))}) walked) = ${walkedChats}`;

  async function read(actor: Actor, filter: LogFilter, { limit, after }: Page, page: string): Promise<LoggedPage> {
    const listed = await queryRows(
      db,
      listedSession,
      `with recursive ${reach}, page as (${page})
       select shown.*, ${listSortKeySql('started_at')}
       from (${shown}) shown order by started_at desc, id desc`,
      { ...valuesOf(actor, filter), ...after, limit: limit + 1 },
    );
    return toListPage(listed, limit);
  }

  return {
    async list(actor: Actor, filter: LogFilter, page: Page): Promise<LoggedPage> {
      const where = conditions(filter, page.after);
      if (filter.words === undefined) return read(actor, filter, page, walk(where, ':limit'));
      const near = await read(actor, filter, page, walkWithWords(where));
      if (near.last !== null) return near;
      // The newest chats may contain too few matches of rare words to fill the page, so the full-text index is searched
      // too.
      const all = await read(actor, filter, page, `${unlessWalked(where)} ${orderNewestFirst} limit :limit`);
      return all.items.length > 0 ? all : near;
    },

    async countWithWords(actor: Actor, filter: LogFilter): Promise<number> {
      const { total } = await queryOneRow(
        db,
        counted,
        `with recursive ${reach} select count(*) as total from (${allWithWords(conditions(filter))}) found`,
        valuesOf(actor, filter),
      );
      return total;
    },

    async find(actor: Actor, chatId: string): Promise<LoggedChatWithTotals | undefined> {
      return queryFirstRow(
        db,
        loggedSessionRowShape,
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
      return queryRows(
        db,
        recentChatRowShape,
        `with recursive ${reach}, page as (${page})
         select c.id, c.title, c.updated_at from page join chats c on c.id = page.chat_id
         where c.org_id = :orgId and c.acl && :acl::text[] order by c.updated_at desc, c.id desc`,
        { ...reachValues(actor), limit },
      );
    },

    async listAgents(actor: Actor): Promise<LoggedAgent[]> {
      return queryRows(
        db,
        loggedAgentRowShape,
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

    /**
     * Computes exact totals over the readable chats: triggers maintain totals per month and day, and only chats of the
     * first and last day of the period are read one by one. Chats with drafts, which only their author reads, are left
     * out unless `withDrafts` is set.
     */
    async stats(actor: Actor, { agentId, period }: LogStatsFilter, { withDrafts = false } = {}): Promise<LogStats> {
      const values: Record<string, unknown> = { ...reachValues(actor), ...(agentId !== undefined && { agentId }) };
      const ofAgent = (table: string) =>
        [
          agentId !== undefined && `and ${table}.agent_id = :agentId`,
          !withDrafts && `and ${table}.agent_id <> all (${ownDrafts})`,
        ]
          .filter(Boolean)
          .join(' ');
      const name = (at: Date): string => {
        const known = `at${at.getTime()}`.replace('-', 'before');
        values[known] = at.toISOString();
        return `:${known}::timestamptz`;
      };
      const chats = (whose: string, { from, until }: ReportPeriod) =>
        [
          // `offset 0` makes Postgres use an index to find the chats of each set of access keys in `reach`.
          `select one.* from (select * from reach where ${whose}) r cross join lateral (
             select ${ofOneChat} from chat_logs l where ${isWithin} ${ofAgent('l')}`,
          from && `and l.started_at >= ${name(from)}`,
          until && `and l.started_at < ${name(until)}`,
          'offset 0) one',
        ].join(' ');
      const totals = ({ span, from, until }: ReportPeriodPart) =>
        [
          `select ${ofTotals} from reach r
           join log_totals t on t.org_id = :orgId and t.audience_hash = r.audience_hash and t.audience && :acl::text[]
           where r.author is null and t.span = '${span}' ${ofAgent('t')}`,
          from && `and t.starts_on >= (${name(from)} at time zone 'utc')::date`,
          until && `and t.starts_on < (${name(until)} at time zone 'utc')::date`,
        ].join(' ');
      const parts = splitReportPeriod(period).map((part) =>
        part.span === 'moment' ? chats('author is null', part) : totals(part),
      );
      return queryOneRow(
        db,
        logStatsRowShape,
        `with recursive ${reach}
         select ${ofAll} from (${[...parts, chats('author is not null', period)].join(' union all ')}) part`,
        values,
      );
    },

    /**
     * Lists the rounds that follow round `after`; fewer than `limit` if their texts are long, none if the user may not
     * read the chat.
     */
    async listRounds(
      actor: Actor,
      chatId: string,
      { after, limit }: { after: number; limit: number },
    ): Promise<LoggedRoundPage> {
      const chat = ChatModel.table(db)
        .where({ orgId: actor.orgId, id: chatId })
        .whereRaw('acl && ?::text[]', [accessKeysOfActor(actor)]);
      const following = roundsOf(chatId).whereExists(chat).where('round', '>', after).orderBy('round');
      const bytes = db.raw('octet_length(user_content) + coalesce(octet_length(assistant_reply), 0) as bytes');
      const first = following.clone().limit(limit + 1);
      const sizes = await queryRows(db, sized, first.select('round', bytes));
      const last = endOfPage(sizes.slice(0, limit));
      if (last === undefined) return { items: [], last: null };
      const items = await queryRows(db, loggedRoundRowShape, following.where('round', '<=', last).select(roundColumns));
      return { items, last: last === sizes.at(-1)?.round ? null : last };
    },

    async findRound(chatId: string, round: number): Promise<LoggedRoundDetail | undefined> {
      const found = roundsOf(chatId)
        .where({ round })
        .select([...roundColumns, 'toolCalls']);
      return queryFirstRow(db, loggedRoundDetailRowShape, found);
    },

    async listTrend(chatId: string, limit: number): Promise<TrendPoint[]> {
      const newest = roundsOf(chatId)
        .whereNotNull('scoredAt')
        .orderBy('round', 'desc')
        .limit(limit)
        .select('round', 'ewma', 'echoState as state');
      return (await queryRows(db, trendPointRowShape, newest)).reverse();
    },
  };
}
