import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table documents
      -- Documents with the same settings are searched together. jsonb writes its keys in one order only.
      add column retrieval_settings text not null generated always as (rag_config ->> 'retrieval') stored,
      -- Of the active generation: a changed configuration counts once its vectors are there.
      add column active_embedding_model text,
      -- Set while the vector store has older keys or settings of the active generation than this row.
      add column points_outdated_at timestamptz,
      -- Until then one process tells the store; who dies over it holds nobody up for longer.
      add column points_leased_until timestamptz;

    -- Every generation was embedded with the deployment's model, whatever its configuration said.
    update document_generations set rag_config = jsonb_set(rag_config, '{embedding,model}', to_jsonb(embedding_model))
    where embedding_model is not null;
    update documents d set
      rag_config = jsonb_set(d.rag_config, '{embedding,model}', g.rag_config #> '{embedding,model}'),
      active_embedding_model = g.rag_config #>> '{embedding,model}'
    from document_generations g
    where g.document_id = d.id and g.generation = d.active_generation;

    create index documents_signature_idx on documents (org_id, retrieval_settings, active_embedding_model)
      where active_generation is not null and deleted_at is null;
    create index documents_outdated_points_idx on documents (points_outdated_at) where points_outdated_at is not null;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop index documents_signature_idx, documents_outdated_points_idx;
    alter table documents
      drop column retrieval_settings,
      drop column active_embedding_model,
      drop column points_outdated_at,
      drop column points_leased_until;
  `);
}
