import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- A key begins with its organization: documents_blob_idx and document_generations_blob_idx find as much.
    drop index documents_blob_key_idx, document_generations_blob_key_idx;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    create index documents_blob_key_idx on documents (org_id, blob_key);
    create index document_generations_blob_key_idx on document_generations (org_id, blob_key);
  `);
}
