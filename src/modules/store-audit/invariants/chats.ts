import type { Knex } from 'knex';
import { NIL } from 'uuid';
import {
  bigintColumn,
  booleanColumn,
  defineRowShape,
  doubleColumn,
  integerColumn,
  jsonColumn,
  pickColumns,
  queryRows,
  type SqlRow,
  textColumn,
} from '#src/adapters/postgres/shapes.ts';
import {
  type AlignmentState,
  alignmentStateAfterRound,
  type EchoState,
  initialAlignmentState,
} from '#src/domain/alignment/chat-state.ts';
import { namesOfRoundTotals } from '#src/domain/alignment/log-totals.ts';
import { ChatModel, RoundModel } from '#src/modules/chat/chat.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import { countRows, type InvariantCheck, queryRowPagesById } from './invariant.ts';

const roundCounts = { rounds: bigintColumn(), highest: integerColumn(), unanswered: bigintColumn() };
const chatWithGaps = defineRowShape({ ...pickColumns(ChatModel, 'id', 'orgId', 'roundCount').columns, ...roundCounts });

const chatsWithGaps = `
  select * from (
     select c.id, c.org_id, c.round_count, count(r.round) as rounds, coalesce(max(r.round), 0) as highest,
            count(*) filter (where r.status = 'complete' and r.assistant_reply is null) as unanswered
     from chats c
     left join rounds r on r.chat_id = c.id
     where c.id > :after
     group by c.id
   ) chat
   where rounds <> highest or rounds <> round_count or unanswered > 0`;

export const roundsAreContiguous: InvariantCheck = {
  invariant: 'I5',
  title: "a chat's rounds are numbered 1..n, and each complete one has its reply",
  async run({ db }, _grace, report) {
    for await (const chats of queryRowPagesById(db, chatWithGaps, chatsWithGaps)) {
      for (const { id, orgId, roundCount, rounds, highest, unanswered } of chats) {
        const numbers = `${rounds} rounds, the highest number is ${highest} and the counter is ${roundCount}`;
        report({ orgId, detail: `Chat ${id}: ${numbers}; ${unanswered} complete rounds have no reply.` });
      }
    }
    return countRows(db, 'chats');
  },
};

const ROUNDS_PER_PAGE = 1_000;

const scoredRound = defineRowShape({
  ...pickColumns(RoundModel, 'orgId', 'chatId', 'round', 'refusalKind').columns,
  userScore: doubleColumn(),
  agentScore: doubleColumn(),
  neutral: booleanColumn(),
  ewma: doubleColumn(),
  echoState: textColumn<EchoState>(),
  foldState: jsonColumn<AlignmentState>(),
  offTopic: integerColumn(),
  onTopic: integerColumn(),
});
type ScoredRound = SqlRow<typeof scoredRound>;

export const alignmentStatesFollowFromScores: InvariantCheck = {
  invariant: 'I6',
  title: 'computing alignment states and trends again from the stored scores gives the stored ones',
  async run({ db }, _grace, report) {
    let checked = 0;
    let before: ScoredRound | undefined;
    for (;;) {
      const page = await scoredRoundsAfter(db, before);
      for (const row of page) {
        const previous = before?.chatId === row.chatId ? before.foldState : initialAlignmentState;
        const fault = foldingFault(row, previous);
        if (fault !== null) report({ orgId: row.orgId, detail: `Chat ${row.chatId}, round ${row.round}: ${fault}.` });
        before = row;
      }
      checked += page.length;
      if (page.length < ROUNDS_PER_PAGE) return checked;
    }
  },
};

/** Loads scored rounds by chat and round, because a round's state is computed from the previous one's. */
function scoredRoundsAfter(db: Knex, before: ScoredRound | undefined): Promise<ScoredRound[]> {
  const query = db('rounds as r')
    .join('chats as c', { 'c.orgId': 'r.orgId', 'c.id': 'r.chatId' })
    .join('agents as a', { 'a.orgId': 'c.orgId', 'a.id': 'c.agentId' })
    .whereNotNull('r.scoredAt')
    .modify((query) => {
      if (before !== undefined) query.whereRaw('(r.chat_id, r.round) > (?, ?)', [before.chatId, before.round]);
    })
    .orderBy(['r.chatId', 'r.round'])
    .limit(ROUNDS_PER_PAGE)
    .select([
      ...['r.orgId', 'r.chatId', 'r.round', 'r.userScore', 'r.agentScore', 'r.neutral', 'r.refusalKind'],
      ...['r.ewma', 'r.echoState', 'r.foldState'],
      'a.userOffTopicStreakThreshold as offTopic',
      'a.userOnTopicStreakThreshold as onTopic',
    ]);
  return queryRows(db, scoredRound, query);
}

function foldingFault(row: ScoredRound, previous: AlignmentState): string | null {
  const scores = {
    user: row.userScore,
    agent: row.agentScore,
    neutral: row.neutral,
    refusal: row.refusalKind !== null,
  };
  const folded = alignmentStateAfterRound(previous, scores, { offTopic: row.offTopic, onTopic: row.onTopic });
  const stored = new Map(Object.entries(row.foldState));
  const differing = Object.entries(folded).find(([name, value]) => stored.get(name) !== value);
  if (differing !== undefined)
    return `${differing[0]} should be ${differing[1]}, but ${stored.get(differing[0])} is stored`;
  if (row.ewma !== folded.ewma || row.echoState !== folded.shown) return 'its columns differ from its computed state';
  return null;
}

const loggedChat = pickColumns(ChatModel, 'id', 'orgId');
const indexedChat = defineRowShape({ ...loggedChat.columns, hasWrongWords: booleanColumn() });
const organizationTotals = defineRowShape({
  ...pickColumns(OrganizationModel, 'id').columns,
  wrongTotals: bigintColumn(),
});

const totalsOf = (table: string) => namesOfRoundTotals.map((column) => `${table}.${column}`).join(', ');

/**
 * Compares chat logs with rounds in one SQL statement, so that both come from the same snapshot. Each scored round must
 * count in exactly one class: stable, drift or refusal.
 */
const wronglyLoggedChats = `
  select c.id, c.org_id
  from chats c
  left join chat_logs l on l.org_id = c.org_id and l.chat_id = c.id
  cross join lateral (
    select count(*) as rounds, count(*) filter (where r.status = 'complete') as completed_rounds,
           count(*) filter (where r.echo_state in ('stable', 'watch')) as stable_rounds,
           count(*) filter (where r.echo_state = 'watch') as watch_rounds,
           count(*) filter (where r.echo_state in ('drift_user', 'drift_agent', 'drift_recovering')) as drift_rounds,
           count(*) filter (where r.echo_state = 'refusal') as refusal_rounds,
           coalesce(sum(r.ewma::numeric), 0) as ewma_sum, coalesce(sum(r.input_tokens), 0) as input_tokens,
           coalesce(sum(r.completion_tokens), 0) as completion_tokens, coalesce(sum(r.cost_usd), 0) as cost_usd,
           coalesce(sum(r.latency_ms) filter (where r.status = 'complete'), 0) as latency_ms,
           count(*) filter (where r.scored_at is not null) as scored
    from rounds r where r.chat_id = c.id
  ) stored
  where c.id > :after and (
    (l.agent_id, l.created_by, l.audience, l.started_at, l.updated_at, l.state)
      is distinct from (c.agent_id, c.created_by, audience_of(c.acl, c.created_by), c.created_at, c.updated_at, c.echo_state)
    or (${totalsOf('l')}) is distinct from (${totalsOf('stored')})
    or l.stable_rounds + l.drift_rounds + l.refusal_rounds <> stored.scored
  )`;

/** Selects every chat, because the search words of each chat are computed again and compared with the stored ones. */
const chatsWithWords = `
  select c.id, c.org_id, exists (
    select from (
      select 0 as round, logged_words(c.org_id, c.title) as words
      union all
      select r.round, logged_words(r.org_id, round_text(r.user_content, r.assistant_reply))
      from rounds r where r.chat_id = c.id and r.status <> 'open'
    ) said
    full join (select round, words from log_texts t where t.chat_id = c.id) found using (round)
    where said.words is distinct from found.words
  ) as has_wrong_words
  from chats c
  where c.id > :after`;
/** Page size: computing the search words of 100 chats of usual length takes about half a second. */
const CHATS_PER_PAGE = 100;

const states = ['stable', 'watch', 'drift_user', 'drift_agent', 'drift_recovering', 'refusal'];
const totals = [...states.map((state) => `${state}_chats`), ...namesOfRoundTotals];

const wrongLogTotals = `
  select * from (
    select o.id, (
      select count(*) from (
        select audience, agent_id, span, starts_on
        from (
          select audience, agent_id, span, starts_on, ${totals.join(', ')} from log_totals where org_id = o.id
          union all
          select audience, agent_id, s.span, s.starts_on,
                 ${[...states.map((state) => `-(state = '${state}')::integer`), ...namesOfRoundTotals.map((column) => `-${column}`)].join(', ')}
          from chat_logs cross join lateral (values
            ('ever', date '0001-01-01'),
            ('month', date_trunc('month', started_at at time zone 'utc')::date),
            ('day', (started_at at time zone 'utc')::date)
          ) s (span, starts_on)
          where org_id = o.id
        ) both_sides
        group by audience, agent_id, span, starts_on
        having ${totals.map((column) => `sum(${column}) <> 0`).join(' or ')}
      ) different
    ) as wrong_totals
    from organizations o
    where o.id > :after
  ) organization
  where wrong_totals > 0`;

export const chatLogsMatchRounds: InvariantCheck = {
  invariant: 'I17',
  title: 'chat logs, their totals and their search words equal the stored rounds',
  async run({ db }, _grace, report) {
    for await (const chats of queryRowPagesById(db, loggedChat, wronglyLoggedChats)) {
      for (const { id, orgId } of chats) report({ orgId, detail: `The log of chat ${id} differs from its rounds.` });
    }
    for await (const chats of queryRowPagesById(db, indexedChat, chatsWithWords, { after: NIL }, CHATS_PER_PAGE)) {
      for (const { id, orgId } of chats.filter(({ hasWrongWords }) => hasWrongWords)) {
        report({ orgId, detail: `The search words of chat ${id} differ from its texts.` });
      }
    }
    for await (const organizations of queryRowPagesById(db, organizationTotals, wrongLogTotals)) {
      for (const { id: orgId, wrongTotals } of organizations) {
        report({ orgId, detail: `${wrongTotals} totals of chat logs are wrong.` });
      }
    }
    return countRows(db, 'chats');
  },
};
