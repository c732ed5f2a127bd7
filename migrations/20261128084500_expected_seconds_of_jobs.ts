import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw('alter table jobs add column expected_seconds integer');
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table jobs drop column expected_seconds');
}
