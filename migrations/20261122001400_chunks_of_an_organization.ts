import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- With the organization, so that no chunk can belong to the document of another one.
    alter table chunks drop constraint chunks_document_id_generation_fkey;
    alter table chunks add foreign key (org_id, document_id, generation)
      references document_generations (org_id, document_id, generation) on delete cascade;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table chunks drop constraint chunks_org_id_document_id_generation_fkey;
    alter table chunks add foreign key (document_id, generation)
      references document_generations (document_id, generation) on delete cascade;
  `);
}
