import type { Knex } from 'knex';

const states = ['stable', 'watch', 'drift_user', 'drift_agent', 'drift_recovering', 'refusal'];
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

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Makes the logs anew, of all there is. All totals in one statement: one by one they took minutes for a hundred
    -- thousand chats.
    create function renew_chat_logs() returns void language plpgsql as $$
    begin
      lock table chats, rounds in exclusive mode;
      truncate chat_logs, log_totals;
      alter table chat_logs disable trigger chat_logs_totals_insert;
      insert into chat_logs (
        org_id, chat_id, agent_id, created_by, audience, started_at, updated_at, state, ${sums.join(', ')})
      select c.org_id, c.id, c.agent_id, c.created_by, audience_of(c.acl, c.created_by),
             c.created_at, c.updated_at, c.echo_state,
             ${sums.map((column) => `coalesce(s.${column}, 0)`).join(', ')}
      from chats c left join (
        select chat_id, count(*) as rounds, count(*) filter (where status = 'complete') as completed_rounds,
               count(*) filter (where echo_state in ('stable', 'watch')) as stable_rounds,
               count(*) filter (where echo_state like 'drift\\_%') as drift_rounds,
               count(*) filter (where echo_state = 'refusal') as refusal_rounds,
               sum(ewma::numeric) as ewma_sum, sum(input_tokens) as input_tokens,
               sum(completion_tokens) as completion_tokens, sum(cost_usd) as cost_usd,
               sum(latency_ms) filter (where status = 'complete') as latency_ms
        from rounds group by chat_id
      ) s on s.chat_id = c.id;
      alter table chat_logs enable trigger chat_logs_totals_insert;
      insert into log_totals (org_id, audience, agent_id, span, starts_on, of_what,
                              ${states.map((state) => `${state}_chats`).join(', ')}, ${sums.join(', ')})
      select org_id, audience, agent_id, s.span, s.starts_on,
             md5(audience::text || agent_id || s.span || to_char(s.starts_on, 'YYYYMMDD'))::uuid,
             ${states.map((state) => `count(*) filter (where state = '${state}')`).join(', ')},
             ${sums.map((column) => `sum(${column})`).join(', ')}
      from chat_logs cross join lateral (values
        ('ever', date '0001-01-01'),
        ('month', date_trunc('month', started_at at time zone 'utc')::date),
        ('day', (started_at at time zone 'utc')::date)
      ) s (span, starts_on)
      group by org_id, audience, agent_id, s.span, s.starts_on;
    end $$;
    select renew_chat_logs();
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop function renew_chat_logs()');
}
