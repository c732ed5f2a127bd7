import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Who repairs a chat by hand may delete single rounds of it; with a chat all of them go in one statement.
    create function unlog_rounds() returns trigger language plpgsql as $$
    begin
      update chat_logs l
      set rounds = l.rounds - gone.rounds,
          completed_rounds = l.completed_rounds - gone.completed_rounds,
          stable_rounds = l.stable_rounds - gone.stable_rounds,
          drift_rounds = l.drift_rounds - gone.drift_rounds,
          refusal_rounds = l.refusal_rounds - gone.refusal_rounds,
          ewma_sum = l.ewma_sum - gone.ewma_sum,
          input_tokens = l.input_tokens - gone.input_tokens,
          completion_tokens = l.completion_tokens - gone.completion_tokens,
          cost_usd = l.cost_usd - gone.cost_usd,
          latency_ms = l.latency_ms - gone.latency_ms
      from (
        select chat_id, count(*) as rounds, count(*) filter (where status = 'complete') as completed_rounds,
               count(*) filter (where echo_state in ('stable', 'watch')) as stable_rounds,
               count(*) filter (where echo_state like 'drift\\_%') as drift_rounds,
               count(*) filter (where echo_state = 'refusal') as refusal_rounds,
               coalesce(sum(ewma::numeric), 0) as ewma_sum, sum(input_tokens) as input_tokens,
               sum(completion_tokens) as completion_tokens, sum(cost_usd) as cost_usd,
               coalesce(sum(latency_ms) filter (where status = 'complete'), 0) as latency_ms
        from before group by chat_id
      ) gone
      where l.chat_id = gone.chat_id;
      delete from log_texts t using before where t.chat_id = before.chat_id and t.round = before.round;
      return null;
    end $$;
    create trigger rounds_unlogged after delete on rounds
      referencing old table as before for each statement execute function unlog_rounds();
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop trigger rounds_unlogged on rounds; drop function unlog_rounds');
}
