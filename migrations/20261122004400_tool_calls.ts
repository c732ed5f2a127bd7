import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- What the model called to write the answer: stored with it, or not at all.
    alter table rounds add column tool_calls jsonb not null default '[]';
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table rounds drop column tool_calls;');
}
