import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Set once a deletion was asked for; no key opens the document from then on, and a workflow takes the rest away.
    alter table documents
      add column deleted_at timestamptz,
      -- Derived: what the document is now, beside what its active generation was made of.
      drop column chunking_stale,
      drop column embedding_stale;

    -- What a generation is made of, as the document was when it was asked for. source_format is found by content.
    alter table document_generations
      add column document_name text,
      add column file_name text,
      add column media_type text,
      add column declared_format text,
      add column source_format text,
      add column size_bytes bigint,
      add column content_sha256 text,
      add column blob_key text,
      add column rag_config jsonb;
    update document_generations g set
      document_name = d.name, file_name = d.file_name, media_type = d.media_type, declared_format = d.declared_format,
      source_format = d.source_format, size_bytes = d.size_bytes, content_sha256 = d.content_sha256,
      blob_key = d.blob_key, rag_config = d.rag_config
    from documents d where d.org_id = g.org_id and d.id = g.document_id;
    alter table document_generations
      alter column document_name set not null,
      alter column file_name set not null,
      alter column size_bytes set not null,
      alter column content_sha256 set not null,
      alter column blob_key set not null,
      alter column rag_config set not null;
    create index document_generations_content_idx on document_generations (org_id, content_sha256);

    -- Of the text that is embedded, as the cache of embeddings has it: says which cached vectors are in use.
    alter table chunks add column text_sha256 bytea;
    update chunks set text_sha256 = sha256(convert_to(coalesce(contextual_text, '') || E'\\n' || content, 'UTF8'));
    alter table chunks alter column text_sha256 set not null;
    create index chunks_text_idx on chunks (org_id, text_sha256);

    alter table jobs
      drop constraint jobs_kind_check,
      add constraint jobs_kind_check check (kind in ('ingest', 'alignment', 'delete'));
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    delete from jobs where kind = 'delete';
    alter table jobs
      drop constraint jobs_kind_check,
      add constraint jobs_kind_check check (kind in ('ingest', 'alignment'));
    alter table chunks drop column text_sha256;
    alter table document_generations
      drop column document_name,
      drop column file_name,
      drop column media_type,
      drop column declared_format,
      drop column source_format,
      drop column size_bytes,
      drop column content_sha256,
      drop column blob_key,
      drop column rag_config;
    alter table documents
      drop column deleted_at,
      add column chunking_stale boolean not null default false,
      add column embedding_stale boolean not null default false;
  `);
}
