import type { Knex } from 'knex';

/** The fold of a round follows from what is stored of it: with these columns the refusal does, too. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table rounds
      -- What the scores come from: embeddings and words, words alone, or the chat model that was asked where those doubt.
      add column score_source text check (score_source in ('embedding', 'words', 'llm')),
      -- {kind, score} as the reply was read, before the user's topic makes it one of scope; null when it declines nothing.
      add column refusal_reading jsonb;
    alter table chats
      add column rescoring_wanted_at timestamptz,
      -- Rounds up to this one are done: what the embedder refuses is not tried for ever.
      add column rescored_to integer not null default 0;
    create index chats_rescoring_idx on chats (rescoring_wanted_at) where rescoring_wanted_at is not null;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table chats drop column rescoring_wanted_at, drop column rescored_to;
    alter table rounds drop column score_source, drop column refusal_reading;
  `);
}
