import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- A personal tree goes with its owner, whoever has made its folders.
    create index folders_owner_idx on folders (owner_id);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop index folders_owner_idx');
}
