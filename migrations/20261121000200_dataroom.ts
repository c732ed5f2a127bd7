import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create extension if not exists vector;

    -- acl: the keys of domain/visibility.ts that open the row; a folder has the keys of its root.
    create table folders (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      parent_id uuid,
      root_id uuid not null,
      name text not null,
      kind text not null check (kind in ('system', 'user')),
      system_role text check (system_role in ('org_root', 'team_root', 'personal_root')),
      visibility text not null check (visibility in ('personal', 'team_level', 'org_level')),
      owner_id uuid references users (id),
      team_id uuid,
      acl text[] not null,
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      unique (org_id, id),
      foreign key (org_id, parent_id) references folders (org_id, id),
      foreign key (org_id, root_id) references folders (org_id, id) deferrable initially deferred,
      foreign key (org_id, team_id) references teams (org_id, id)
    );
    create unique index folders_sibling_name_key on folders (parent_id, lower(name));
    create unique index folders_personal_root_key on folders (owner_id) where system_role = 'personal_root';
    create unique index folders_team_root_key on folders (team_id) where system_role = 'team_root';
    create unique index folders_org_root_key on folders (org_id) where system_role = 'org_root';
    create index folders_root_idx on folders (org_id, root_id);
    create index folders_parent_idx on folders (org_id, parent_id);
    create index folders_team_idx on folders (org_id, team_id);
    create index folders_created_by_idx on folders (created_by);

    create table documents (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      name text not null,
      file_name text not null,
      media_type text,
      -- What the author of a pasted text says it is; what is null is detected.
      declared_format text,
      source_format text,
      size_bytes bigint not null,
      content_sha256 text not null,
      blob_key text not null,
      import_source_provider text,
      import_source_url text,
      -- The newest generation asked for; 0 before the first ingestion. Readers see active_generation only.
      generation integer not null default 0,
      active_generation integer,
      chunking_stale boolean not null default false,
      embedding_stale boolean not null default false,
      rag_config jsonb not null,
      acl text[] not null,
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      updated_by uuid not null references users (id),
      updated_at timestamptz not null default now(),
      unique (org_id, id)
    );
    create index documents_list_idx on documents (org_id, updated_at desc, id desc);
    create index documents_acl_idx on documents using gin (acl);
    create index documents_created_by_idx on documents (created_by);
    create index documents_updated_by_idx on documents (updated_by);

    create table folder_links (
      org_id uuid not null,
      folder_id uuid not null,
      document_id uuid not null,
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      primary key (document_id, folder_id),
      foreign key (org_id, folder_id) references folders (org_id, id),
      foreign key (org_id, document_id) references documents (org_id, id) on delete cascade
    );
    create index folder_links_folder_idx on folder_links (org_id, folder_id);
    create index folder_links_document_idx on folder_links (org_id, document_id);
    create index folder_links_created_by_idx on folder_links (created_by);

    -- What a file became, once for each organization, content and converter: a re-ingest finds it here.
    create table conversions (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      content_sha256 text not null,
      converter_version text not null,
      source_format text not null,
      title text,
      body text not null,
      -- Lists show it; counting there would fetch every body.
      char_count integer not null generated always as (char_length(body)) stored,
      page_map integer[],
      page_count integer,
      created_at timestamptz not null default now(),
      unique (org_id, id),
      unique (org_id, content_sha256, converter_version, source_format)
    );

    create table document_generations (
      org_id uuid not null,
      document_id uuid not null,
      generation integer not null,
      job_id text not null,
      conversion_id uuid,
      chunks_total integer,
      chunks_embedded integer not null default 0,
      embedding_model text,
      created_at timestamptz not null default now(),
      chunked_at timestamptz,
      activated_at timestamptz,
      primary key (document_id, generation),
      foreign key (org_id, document_id) references documents (org_id, id) on delete cascade,
      foreign key (org_id, conversion_id) references conversions (org_id, id)
    );
    create index document_generations_document_idx on document_generations (org_id, document_id);
    create index document_generations_conversion_idx on document_generations (org_id, conversion_id);

    create table chunks (
      id uuid primary key,
      org_id uuid not null,
      document_id uuid not null,
      generation integer not null,
      chunk_index integer not null,
      content text not null,
      contextual_text text,
      chunk_kind text not null,
      token_count integer not null,
      content_offset integer not null,
      page_number integer not null,
      -- Length in terms of what BM25 indexes.
      term_count integer not null,
      embedding_model text,
      embedded_at timestamptz,
      unique (org_id, id),
      unique (document_id, generation, chunk_index),
      foreign key (document_id, generation) references document_generations (document_id, generation) on delete cascade
    );
    create index chunks_org_document_idx on chunks (org_id, document_id, generation);

    -- BM25 postings. Organization first: statistics and hits never cross a tenant.
    create table chunk_terms (
      org_id uuid not null,
      term text not null,
      chunk_id uuid not null,
      frequency integer not null,
      primary key (org_id, term, chunk_id),
      foreign key (org_id, chunk_id) references chunks (org_id, id) on delete cascade
    );
    create index chunk_terms_chunk_idx on chunk_terms (org_id, chunk_id);

    -- The vector store of the embedded default. No foreign key: another store may stand in its place,
    -- so the pipeline must not lean on one.
    create table chunk_vectors (
      chunk_id uuid primary key,
      org_id uuid not null,
      document_id uuid not null,
      generation integer not null,
      model text not null,
      embedding vector not null
    );
    create index chunk_vectors_document_idx on chunk_vectors (org_id, document_id, generation);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop table chunk_vectors, chunk_terms, chunks, document_generations, conversions, folder_links, documents, folders;
  `);
}
