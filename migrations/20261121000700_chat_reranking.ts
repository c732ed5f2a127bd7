import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Null: nobody asked, the settings of the documents decide.
    alter table chats alter column rag_reranking drop not null, alter column rag_reranking_type drop not null;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    update chats
    set rag_reranking = coalesce(rag_reranking, false), rag_reranking_type = coalesce(rag_reranking_type, 'cross_encoder');
    alter table chats alter column rag_reranking set not null, alter column rag_reranking_type set not null;
  `);
}
