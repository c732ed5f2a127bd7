import type { Knex } from 'knex';

/** The columns that are summed, of a chat in `chat_logs` and of many chats in `log_totals`. */
const sums = [
  'rounds',
  'completed_rounds',
  'stable_rounds',
  'drift_rounds',
  'refusal_rounds',
  'ewma_sum',
  'input_tokens',
  'completion_tokens',
  'cost_usd',
  'latency_ms',
];
const states = ['stable', 'watch', 'drift_user', 'drift_agent', 'drift_recovering', 'refusal'];
const chatCounts = states.map((state) => `${state}_chats`);
const totals = [...chatCounts, ...sums];
const list = (columns: readonly string[], of: (column: string) => string = (column) => column) =>
  columns.map(of).join(', ');

/** What a round adds to a log. Decimals are exact, so that nothing is left when it is taken away. */
const sumsOfRound = `
  1 as rounds,
  (r.status = 'complete')::integer as completed_rounds,
  coalesce((r.echo_state in ('stable', 'watch'))::integer, 0) as stable_rounds,
  coalesce((r.echo_state like 'drift\\_%')::integer, 0) as drift_rounds,
  coalesce((r.echo_state = 'refusal')::integer, 0) as refusal_rounds,
  coalesce(r.ewma::numeric, 0) as ewma_sum,
  r.input_tokens::bigint as input_tokens,
  r.completion_tokens::bigint as completion_tokens,
  r.cost_usd as cost_usd,
  case when r.status = 'complete' then coalesce(r.latency_ms, 0)::bigint else 0 end as latency_ms`;

/** Chats that are there already come in with 20261122005800. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- The keys of a chat without its author's, unless there are no others: chats of many authors have the same.
    create function audience_of(acl text[], author uuid) returns text[] language sql immutable strict parallel safe
    return case when acl <@ array['user:' || author::text] then acl else array_remove(acl, 'user:' || author::text) end;

    -- A chat as logs list it, with the sums of its rounds. Rounds go with their chat and never by themselves.
    create table chat_logs (
      org_id uuid not null,
      chat_id uuid primary key,
      agent_id uuid not null,
      created_by uuid not null,
      audience text[] not null,
      audience_hash bigint not null generated always as (hash_array_extended(audience, 0)) stored,
      started_at timestamptz not null,
      updated_at timestamptz not null,
      state text not null,
      rounds bigint not null default 0,
      completed_rounds bigint not null default 0,
      stable_rounds bigint not null default 0,
      drift_rounds bigint not null default 0,
      refusal_rounds bigint not null default 0,
      ewma_sum numeric not null default 0,
      input_tokens bigint not null default 0,
      completion_tokens bigint not null default 0,
      cost_usd numeric not null default 0,
      -- Of complete rounds.
      latency_ms bigint not null default 0,
      foreign key (org_id, chat_id) references chats (org_id, id) on delete cascade
    );
    -- Each list of those that the keys of a reader open, in its order.
    create index chat_logs_started_idx on chat_logs (org_id, audience_hash, started_at desc, chat_id desc);
    create index chat_logs_agent_idx on chat_logs (org_id, audience_hash, agent_id, started_at desc, chat_id desc);
    create index chat_logs_state_idx on chat_logs (org_id, audience_hash, state, started_at desc, chat_id desc);
    create index chat_logs_agent_state_idx
      on chat_logs (org_id, audience_hash, agent_id, state, started_at desc, chat_id desc);
    create index chat_logs_updated_idx on chat_logs (org_id, audience_hash, updated_at desc, chat_id desc);
    create index chat_logs_own_updated_idx on chat_logs (org_id, created_by, updated_at desc, chat_id desc);
    create index chat_logs_own_idx on chat_logs (org_id, created_by, audience_hash);

    -- The sums of all chats with the same readers and agent: of all time, and of those that began in a month or on a
    -- day (UTC). Several rows may be about the same, where one was held by another transaction; their sums are exact in
    -- every snapshot.
    create table log_totals (
      id bigint generated always as identity primary key,
      org_id uuid not null,
      audience text[] not null,
      audience_hash bigint not null generated always as (hash_array_extended(audience, 0)) stored,
      agent_id uuid not null,
      span text not null check (span in ('ever', 'month', 'day')),
      starts_on date not null,
      -- Of all that it is about, which may be too long for an index.
      of_what uuid not null,
      ${list(totals, (column) => `${column} ${/ewma|cost/.test(column) ? 'numeric' : 'bigint'} not null`)},
      chats bigint not null generated always as (${chatCounts.join(' + ')}) stored
    )
    -- Room for changed rows beside the old ones.
    with (fillfactor = 50);
    create index log_totals_of_what_idx on log_totals (org_id, of_what);
    create index log_totals_opened_idx on log_totals using gin (audience) where span = 'ever';
    create index log_totals_span_idx on log_totals (org_id, audience_hash, span, starts_on);

    create function total_chat_logs(gone chat_logs[], come chat_logs[]) returns void language plpgsql as $$
    declare
      more record;
      changed log_totals;
    begin
      for more in
        select org_id, audience, agent_id, s.span, s.starts_on,
               md5(audience::text || agent_id || s.span || to_char(s.starts_on, 'YYYYMMDD'))::uuid as of_what,
               ${list(states, (state) => `sum(sign * (state = '${state}')::integer) as ${state}_chats`)},
               ${list(sums, (column) => `sum(sign * ${column}) as ${column}`)}
        from (select -1 as sign, g.* from unnest(gone) g union all select 1, c.* from unnest(come) c) l
        cross join lateral (values
          ('ever', date '0001-01-01'),
          ('month', date_trunc('month', started_at at time zone 'utc')::date),
          ('day', (started_at at time zone 'utc')::date)
        ) s (span, starts_on)
        group by org_id, audience, agent_id, s.span, s.starts_on
        having ${totals
          .map((column) =>
            sums.includes(column)
              ? `sum(sign * ${column}) <> 0`
              : `sum(sign * (state = '${column.replace(/_chats$/, '')}')::integer) <> 0`,
          )
          .join(' or ')}
      loop
        -- Never waits: two transactions that change many chats in different orders would wait for each other.
        update log_totals t set ${list(totals, (column) => `${column} = t.${column} + more.${column}`)}
        where t.id = (
          select id from log_totals where org_id = more.org_id and of_what = more.of_what
          limit 1 for no key update skip locked
        )
        returning * into changed;
        if not found then
          insert into log_totals (org_id, audience, agent_id, span, starts_on, of_what, ${list(totals)})
          values (more.org_id, more.audience, more.agent_id, more.span, more.starts_on, more.of_what,
                  ${list(totals, (column) => `more.${column}`)});
        elsif ${totals.map((column) => `changed.${column} = 0`).join(' and ')} then
          delete from log_totals where id = changed.id;
        end if;
      end loop;
    end $$;

    create function total_new_chat_logs() returns trigger language plpgsql as $$
    begin
      perform total_chat_logs('{}', array(select row(l.*)::chat_logs from after l));
      return null;
    end $$;
    create function total_changed_chat_logs() returns trigger language plpgsql as $$
    begin
      perform total_chat_logs(array(select row(l.*)::chat_logs from before l), array(select row(l.*)::chat_logs from after l));
      return null;
    end $$;
    create function total_gone_chat_logs() returns trigger language plpgsql as $$
    begin
      perform total_chat_logs(array(select row(l.*)::chat_logs from before l), '{}');
      return null;
    end $$;
    create trigger chat_logs_totals_insert after insert on chat_logs
      referencing new table as after for each statement execute function total_new_chat_logs();
    create trigger chat_logs_totals_update after update on chat_logs
      referencing old table as before new table as after for each statement execute function total_changed_chat_logs();
    create trigger chat_logs_totals_delete after delete on chat_logs
      referencing old table as before for each statement execute function total_gone_chat_logs();

    create function log_chat() returns trigger language plpgsql as $$
    begin
      if tg_op = 'INSERT' then
        insert into chat_logs (org_id, chat_id, agent_id, created_by, audience, started_at, updated_at, state)
        values (new.org_id, new.id, new.agent_id, new.created_by, audience_of(new.acl, new.created_by),
                new.created_at, new.updated_at, new.echo_state);
      else
        update chat_logs
        set agent_id = new.agent_id, created_by = new.created_by, audience = audience_of(new.acl, new.created_by),
            started_at = new.created_at, updated_at = new.updated_at, state = new.echo_state
        where chat_id = new.id;
      end if;
      return null;
    end $$;
    create trigger chats_logged after insert on chats for each row execute function log_chat();
    create trigger chats_logged_again after update on chats for each row
      when ((old.agent_id, old.created_by, old.acl, old.created_at, old.updated_at, old.echo_state)
        is distinct from (new.agent_id, new.created_by, new.acl, new.created_at, new.updated_at, new.echo_state))
      execute function log_chat();

    create function log_round() returns trigger language plpgsql as $$
    declare
      more record;
      less record;
    begin
      select ${sumsOfRound} into more from (select new.*) r;
      select ${sumsOfRound} into less from (select old.*) r;
      update chat_logs l
      set ${list(sums, (column) => `${column} = l.${column} + more.${column} - case tg_op when 'INSERT' then 0 else less.${column} end`)}
      where chat_id = new.chat_id;
      return null;
    end $$;
    create trigger rounds_logged after insert on rounds for each row execute function log_round();
    -- Not when a lease is renewed.
    create trigger rounds_logged_again after update of
      status, echo_state, ewma, input_tokens, completion_tokens, cost_usd, latency_ms
      on rounds for each row execute function log_round();
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop trigger rounds_logged on rounds;
    drop trigger rounds_logged_again on rounds;
    drop trigger chats_logged on chats;
    drop trigger chats_logged_again on chats;
    drop function log_round, log_chat;
    drop table chat_logs, log_totals cascade;
    drop function total_new_chat_logs, total_changed_chat_logs, total_gone_chat_logs, audience_of;
  `);
}
