import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- When the model of a unit first asked for a pause, in the present attempt.
    alter table evaluation_units add column paused_since timestamptz;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table evaluation_units drop column paused_since');
}
