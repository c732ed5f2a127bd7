import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Each attempt at an answer has ten million numbers of its own.
    alter table rounds alter column last_seq type bigint;
    alter table round_events alter column first_seq type bigint, alter column last_seq type bigint;
    -- Who follows an answer asks for what came after a number, ten times a second.
    create index round_events_last_idx on round_events (stream_id, last_seq);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop index round_events_last_idx;
    delete from round_events where last_seq > 2147483647;
    update rounds set last_seq = null where last_seq > 2147483647;
    alter table rounds alter column last_seq type integer;
    alter table round_events alter column first_seq type integer, alter column last_seq type integer;
  `);
}
