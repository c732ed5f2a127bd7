import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- What a chat model said of where a chunk stands in its document, once for each text: a retry, a re-ingest or a
    -- copy finds it here. A conversion is the document's body; what is said of it goes with it.
    create table contextual_texts (
      org_id uuid not null,
      conversion_id uuid not null,
      model text not null,
      prompt_version integer not null,
      -- Of the chunk's content.
      chunk_sha256 bytea not null,
      -- Empty where the model had nothing to say.
      situation text not null,
      created_at timestamptz not null default now(),
      primary key (org_id, conversion_id, model, prompt_version, chunk_sha256),
      foreign key (org_id, conversion_id) references conversions (org_id, id) on delete cascade
    );
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop table contextual_texts');
}
