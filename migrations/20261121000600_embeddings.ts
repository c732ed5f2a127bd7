import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- The first answer of a model fixes how long its vectors are; a service that later answers others is refused.
    create table embedding_models (
      model text primary key,
      dimensions integer not null,
      created_at timestamptz not null default now()
    );

    -- What a text became, once for each organization and model: a re-ingest, a copy or a retry finds it here.
    -- The vector is little-endian 32-bit floats, exactly as they came: half of the bits would save 0.75 kB of the
    -- 1.5 kB a chunk of the packaged model takes beside its text, and give the same text two vectors.
    create table embeddings (
      org_id uuid not null references organizations (id),
      model text not null,
      text_sha256 bytea not null,
      vector bytea not null,
      created_at timestamptz not null default now(),
      primary key (org_id, model, text_sha256)
    );
    -- Floats do not compress.
    alter table embeddings alter column vector set storage external;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop table embeddings, embedding_models');
}
