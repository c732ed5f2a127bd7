import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Of this attempt. A run takes a moment to stop, and what is asked for in that moment must not count on it.
    alter table jobs add column cancel_requested_at timestamptz;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table jobs drop column cancel_requested_at');
}
