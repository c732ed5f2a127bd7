import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- subject: the hash of an address, of one with an email, or of a user's id.
    create table rate_limits (
      name text not null,
      subject bytea not null,
      used integer not null,
      ends_at timestamptz not null,
      primary key (name, subject)
    ) with (fillfactor = 70);
    create index rate_limits_ends_at_idx on rate_limits (ends_at);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop table rate_limits');
}
