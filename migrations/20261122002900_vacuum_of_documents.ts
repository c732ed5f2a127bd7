import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Lists and searches read an index alone where its table was vacuumed since its last change.
    alter table documents
      set (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.05);
    alter table document_name_words
      set (autovacuum_vacuum_insert_scale_factor = 0.02, autovacuum_vacuum_scale_factor = 0.05);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table documents reset (autovacuum_vacuum_insert_scale_factor, autovacuum_vacuum_scale_factor);
    alter table document_name_words reset (autovacuum_vacuum_insert_scale_factor, autovacuum_vacuum_scale_factor);
  `);
}
