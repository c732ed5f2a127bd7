import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Who is about to refer to an original, or did so until now. Once it has expired, it is looked at whether anything
    -- else needs the original.
    create table blob_claims (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      blob_key text not null,
      expires_at timestamptz not null
    );
    create index blob_claims_key_idx on blob_claims (org_id, blob_key);
    create index blob_claims_expires_at_idx on blob_claims (expires_at);

    create index documents_blob_key_idx on documents (org_id, blob_key);
    create index document_generations_blob_key_idx on document_generations (org_id, blob_key);
  `);
}

/** Only before the first upload: code of before deletes a shared original with the first of its documents. */
export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop index documents_blob_key_idx;
    drop index document_generations_blob_key_idx;
    drop table blob_claims;
  `);
}
