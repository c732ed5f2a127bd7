import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Most changes of a chat's log are of its time alone, and nothing to its totals.
    create or replace function total_changed_chat_logs() returns trigger language plpgsql as $$
    declare
      gone chat_logs[];
      come chat_logs[];
    begin
      select array_agg(row(b.*)::chat_logs), array_agg(row(a.*)::chat_logs) into gone, come
      from before b join after a using (chat_id)
      where (b.audience, b.agent_id, b.started_at, b.state, b.rounds, b.completed_rounds, b.stable_rounds, b.drift_rounds,
             b.refusal_rounds, b.ewma_sum, b.input_tokens, b.completion_tokens, b.cost_usd, b.latency_ms)
        is distinct from
            (a.audience, a.agent_id, a.started_at, a.state, a.rounds, a.completed_rounds, a.stable_rounds, a.drift_rounds,
             a.refusal_rounds, a.ewma_sum, a.input_tokens, a.completion_tokens, a.cost_usd, a.latency_ms);
      if gone is not null then perform total_chat_logs(gone, come); end if;
      return null;
    end $$;

    -- The words of a round are indexed when it has ended: whoever has asked does not wait for that.
    drop trigger rounds_worded on rounds;
    create trigger rounds_worded after insert on rounds
      for each row when (new.status <> 'open') execute function log_text();
    create trigger rounds_worded_again after update of status, user_content, assistant_reply on rounds
      for each row when (new.status <> 'open') execute function log_text();
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    create or replace function total_changed_chat_logs() returns trigger language plpgsql as $$
    begin
      perform total_chat_logs(array(select row(l.*)::chat_logs from before l), array(select row(l.*)::chat_logs from after l));
      return null;
    end $$;
    drop trigger rounds_worded on rounds;
    drop trigger rounds_worded_again on rounds;
    create trigger rounds_worded after insert or update of user_content, assistant_reply on rounds
      for each row execute function log_text();
  `);
}
