import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Of the price table that cost_usd follows from; null for a model without a price, and for rounds of before.
    alter table rounds add column price_version text;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table rounds drop column price_version');
}
