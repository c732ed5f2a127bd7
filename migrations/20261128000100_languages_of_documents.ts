import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table document_generations
      -- ISO 639-1, or 'und' where the language could not be determined.
      add column language text not null default 'und',
      -- Version of the text analyzer that indexed the words. Workers index generations of older versions again.
      add column analyzer_version integer not null default 1;
    create index document_generations_outdated_words_idx on document_generations (document_id)
      where analyzer_version < 2;
    -- Language of the active generation, for searches.
    alter table documents add column active_language text not null default 'und';

    create index documents_searched_together_idx
      on documents (org_id, retrieval_settings, active_embedding_model, active_language)
      where active_generation is not null and deleted_at is null;
    drop index documents_signature_idx;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    create index documents_signature_idx on documents (org_id, retrieval_settings, active_embedding_model)
      where active_generation is not null and deleted_at is null;
    drop index documents_searched_together_idx;
    alter table documents drop column active_language;
    alter table document_generations drop column language, drop column analyzer_version;
  `);
}
