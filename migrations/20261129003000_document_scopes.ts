import type { Knex } from 'knex';

/** The folders and documents to which an agent is bound; null if it uses all that the user may read. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw('alter table agents add column document_scope jsonb');
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table agents drop column document_scope');
}
