import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- The id of what the request makes: the same for a request that takes the key over. Processes of the release before
    -- this one insert keys without it.
    alter table idempotency_keys add column reserved_id uuid not null default gen_random_uuid();
    -- The id that the request which asked for this generation had reserved; null where an upload or a change opened it.
    alter table document_generations add column reserved_id uuid;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table document_generations drop column reserved_id;
    alter table idempotency_keys drop column reserved_id;
  `);
}
