import { NIL } from 'uuid';
import { bigint, boolean } from '#src/adapters/postgres/columns.ts';
import { pick, shape } from '#src/adapters/postgres/shapes.ts';
import { roundSums } from '#src/domain/round-sums.ts';
import { ChatModel } from '#src/modules/chat/chat.model.ts';
import { OrganizationModel } from '#src/modules/organization/organization.model.ts';
import type { InvariantCheck } from '../invariants.model.ts';
import { countRows, pagesOf } from './rows.ts';

const misreadChat = pick(ChatModel, 'id', 'orgId');
const wordedChat = shape({ ...misreadChat.columns, isMisworded: boolean() });
const mistotalledOrganization = shape({ ...pick(OrganizationModel, 'id').columns, wrongTotals: bigint() });

const sumsOf = (table: string) => roundSums.map((column) => `${table}.${column}`).join(', ');

/** In one statement, so that it sees both sides at one time. A scored round is in one class: stable, drift or refusal. */
const misread = `
  select c.id, c.org_id
  from chats c
  left join chat_logs l on l.org_id = c.org_id and l.chat_id = c.id
  cross join lateral (
    select count(*) as rounds, count(*) filter (where r.status = 'complete') as completed_rounds,
           count(*) filter (where r.echo_state in ('stable', 'watch')) as stable_rounds,
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
    or (${sumsOf('l')}) is distinct from (${sumsOf('stored')})
    or l.stable_rounds + l.drift_rounds + l.refusal_rounds <> stored.scored
  )`;

/** Of every chat, since words are made anew for it: some at a time, each row by its texts. */
const worded = `
  select c.id, c.org_id, exists (
    select from (
      select 0 as round, logged_words(c.org_id, c.title) as words
      union all
      select r.round, logged_words(r.org_id, round_text(r.user_content, r.assistant_reply))
      from rounds r where r.chat_id = c.id and r.status <> 'open'
    ) said
    full join (select round, words from log_texts t where t.chat_id = c.id) found using (round)
    where said.words is distinct from found.words
  ) as is_misworded
  from chats c
  where c.id > :after`;
/** About half a second, of usual chats. */
const chatsAtOnce = 100;

const states = ['stable', 'watch', 'drift_user', 'drift_agent', 'drift_recovering', 'refusal'];
const totals = [...states.map((state) => `${state}_chats`), ...roundSums];

/** What is left when the logs are taken from their totals. */
const mistotalled = `
  select * from (
    select o.id, (
      select count(*) from (
        select audience, agent_id, span, starts_on
        from (
          select audience, agent_id, span, starts_on, ${totals.join(', ')} from log_totals where org_id = o.id
          union all
          select audience, agent_id, s.span, s.starts_on,
                 ${[...states.map((state) => `-(state = '${state}')::integer`), ...roundSums.map((column) => `-${column}`)].join(', ')}
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

/** I17: logs and their sums are what the chats are, and each scored round counts once. */
export const conversationsAreSummed: InvariantCheck = {
  invariant: 'I17',
  title: 'the logs of conversations, and the sums over them, are those of their rounds',
  async run({ db }, _patience, found) {
    for await (const chats of pagesOf(db, misreadChat, misread)) {
      for (const { id, orgId } of chats) found({ orgId, detail: `Chat ${id} is not logged as it is.` });
    }
    for await (const chats of pagesOf(db, wordedChat, worded, { after: NIL }, chatsAtOnce)) {
      for (const { id, orgId } of chats.filter(({ isMisworded }) => isMisworded)) {
        found({ orgId, detail: `Chat ${id} is not found by the words that it has.` });
      }
    }
    for await (const organizations of pagesOf(db, mistotalledOrganization, mistotalled)) {
      for (const { id: orgId, wrongTotals } of organizations) {
        found({ orgId, detail: `${wrongTotals} totals of its conversations are not what they are made of.` });
      }
    }
    return countRows(db, 'chats');
  },
};
