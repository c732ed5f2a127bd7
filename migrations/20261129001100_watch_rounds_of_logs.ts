import type { Knex } from 'knex';

const states = ['stable', 'watch', 'drift_user', 'drift_agent', 'drift_recovering', 'refusal'];

/** What a round adds to a log, by the column that sums it up. Decimals are exact. */
const ofRound = {
  rounds: '1',
  completed_rounds: `(r.status = 'complete')::integer`,
  stable_rounds: `coalesce((r.echo_state in ('stable', 'watch'))::integer, 0)`,
  drift_rounds: `coalesce((r.echo_state like 'drift\\_%')::integer, 0)`,
  refusal_rounds: `coalesce((r.echo_state = 'refusal')::integer, 0)`,
  ewma_sum: 'coalesce(r.ewma::numeric, 0)',
  input_tokens: 'r.input_tokens::bigint',
  completion_tokens: 'r.completion_tokens::bigint',
  cost_usd: 'r.cost_usd',
  latency_ms: `case when r.status = 'complete' then coalesce(r.latency_ms, 0)::bigint else 0 end`,
};
const ofRoundWithWatch = { ...ofRound, watch_rounds: `coalesce((r.echo_state = 'watch')::integer, 0)` };

/** The functions of earlier migrations that name every sum, for these sums. */
function functionsOf(sums: Record<string, string>): string {
  const names = Object.keys(sums);
  const list = (of: (name: string) => string, separator = ', ') => names.map(of).join(separator);
  const counts = states.map((state) => `${state}_chats`);
  const totals = [...counts, ...names];
  const signed = [
    ...states.map((state) => [`${state}_chats`, `sum(sign * (state = '${state}')::integer)`] as const),
    ...names.map((name) => [name, `sum(sign * ${name})`] as const),
  ];
  const ofOne = list((name) => `${sums[name]} as ${name}`);
  const ofChat = list((name) => `sum(${sums[name]}) as ${name}`);
  return `
    create or replace function total_chat_logs(gone chat_logs[], come chat_logs[]) returns void language plpgsql as $$
    declare
      more record;
      changed log_totals;
    begin
      for more in
        select org_id, audience, agent_id, s.span, s.starts_on,
               md5(audience::text || agent_id || s.span || to_char(s.starts_on, 'YYYYMMDD'))::uuid as of_what,
               ${signed.map(([name, sum]) => `${sum} as ${name}`).join(', ')}
        from (select -1 as sign, g.* from unnest(gone) g union all select 1, c.* from unnest(come) c) l
        cross join lateral (values
          ('ever', date '0001-01-01'),
          ('month', date_trunc('month', started_at at time zone 'utc')::date),
          ('day', (started_at at time zone 'utc')::date)
        ) s (span, starts_on)
        group by org_id, audience, agent_id, s.span, s.starts_on
        having ${signed.map(([, sum]) => `${sum} <> 0`).join(' or ')}
      loop
        -- Never waits: two transactions that change many chats in different orders would wait for each other.
        update log_totals t set ${totals.map((name) => `${name} = t.${name} + more.${name}`).join(', ')}
        where t.id = (
          select id from log_totals where org_id = more.org_id and of_what = more.of_what
          limit 1 for no key update skip locked
        )
        returning * into changed;
        if not found then
          insert into log_totals (org_id, audience, agent_id, span, starts_on, of_what, ${totals.join(', ')})
          values (more.org_id, more.audience, more.agent_id, more.span, more.starts_on, more.of_what,
                  ${totals.map((name) => `more.${name}`).join(', ')});
        elsif ${totals.map((name) => `changed.${name} = 0`).join(' and ')} then
          delete from log_totals where id = changed.id;
        end if;
      end loop;
    end $$;

    create or replace function total_changed_chat_logs() returns trigger language plpgsql as $$
    declare
      gone chat_logs[];
      come chat_logs[];
    begin
      select array_agg(row(b.*)::chat_logs), array_agg(row(a.*)::chat_logs) into gone, come
      from before b join after a using (chat_id)
      where (b.audience, b.agent_id, b.started_at, b.state, ${list((name) => `b.${name}`)})
        is distinct from (a.audience, a.agent_id, a.started_at, a.state, ${list((name) => `a.${name}`)});
      if gone is not null then perform total_chat_logs(gone, come); end if;
      return null;
    end $$;

    create or replace function log_round() returns trigger language plpgsql as $$
    declare
      more record;
      less record;
    begin
      select ${ofOne} into more from (select new.*) r;
      select ${ofOne} into less from (select old.*) r;
      update chat_logs l
      set ${list((name) => `${name} = l.${name} + more.${name} - case tg_op when 'INSERT' then 0 else less.${name} end`)}
      where chat_id = new.chat_id;
      return null;
    end $$;

    create or replace function unlog_rounds() returns trigger language plpgsql as $$
    begin
      update chat_logs l set ${list((name) => `${name} = l.${name} - gone.${name}`)}
      from (select chat_id, ${ofChat} from before r group by chat_id) gone
      where l.chat_id = gone.chat_id;
      delete from log_texts t using before where t.chat_id = before.chat_id and t.round = before.round;
      return null;
    end $$;

    create or replace function renew_chat_logs() returns void language plpgsql as $$
    begin
      lock table chats, rounds in exclusive mode;
      truncate chat_logs, log_totals;
      alter table chat_logs disable trigger chat_logs_totals_insert;
      insert into chat_logs (
        org_id, chat_id, agent_id, created_by, audience, started_at, updated_at, state, ${names.join(', ')})
      select c.org_id, c.id, c.agent_id, c.created_by, audience_of(c.acl, c.created_by),
             c.created_at, c.updated_at, c.echo_state, ${list((name) => `coalesce(s.${name}, 0)`)}
      from chats c left join (select chat_id, ${ofChat} from rounds r group by chat_id) s on s.chat_id = c.id;
      alter table chat_logs enable trigger chat_logs_totals_insert;
      insert into log_totals (org_id, audience, agent_id, span, starts_on, of_what, ${totals.join(', ')})
      select org_id, audience, agent_id, s.span, s.starts_on,
             md5(audience::text || agent_id || s.span || to_char(s.starts_on, 'YYYYMMDD'))::uuid,
             ${states.map((state) => `count(*) filter (where state = '${state}')`).join(', ')},
             ${list((name) => `sum(${name})`)}
      from chat_logs cross join lateral (values
        ('ever', date '0001-01-01'),
        ('month', date_trunc('month', started_at at time zone 'utc')::date),
        ('day', (started_at at time zone 'utc')::date)
      ) s (span, starts_on)
      group by org_id, audience, agent_id, s.span, s.starts_on;
    end $$;`;
}

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table chat_logs add column watch_rounds bigint not null default 0;
    alter table log_totals add column watch_rounds bigint not null default 0;
    ${functionsOf(ofRoundWithWatch)}
    select renew_chat_logs();
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    ${functionsOf(ofRound)}
    alter table chat_logs drop column watch_rounds;
    alter table log_totals drop column watch_rounds;
  `);
}
