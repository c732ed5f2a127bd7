import type { Knex } from 'knex';

/** Pages of scans as OCR has read them, for as long as others of the document are still to be read. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table recognized_pages (
      org_id uuid not null,
      document_id uuid not null,
      generation integer not null,
      -- Other programs, or languages, would read something else.
      converter_version text not null,
      page_index integer not null,
      lines jsonb not null,
      primary key (org_id, document_id, generation, converter_version, page_index),
      foreign key (org_id, document_id, generation)
        references document_generations (org_id, document_id, generation) on delete cascade
    )
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop table recognized_pages');
}
