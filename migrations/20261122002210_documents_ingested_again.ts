import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Few of many: a summary of jobs leaves out those that a newer ingestion of the same document has replaced.
    create index documents_again_idx on documents (id, generation) where generation > 1;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop index documents_again_idx');
}
