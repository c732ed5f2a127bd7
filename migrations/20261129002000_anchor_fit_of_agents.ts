import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table agents
      -- Share of the texts on which the anchor words were tried at publication; null if they were not.
      add column anchor_fit double precision check (anchor_fit between 0 and 1),
      add column helpful_anchor_words text[] not null default '{}';
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table agents drop column anchor_fit, drop column helpful_anchor_words');
}
