import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Is an original still in use? Asked at each replacement, and by the audit for thousands at once.
    create index documents_blob_idx on documents (blob_key);
    create index document_generations_blob_idx on document_generations (blob_key);
    create index documents_deleted_idx on documents (id) where deleted_at is not null;

    -- The sweeper asks every second: jobs that were closed before their start must not heap up in its way.
    drop index jobs_outbox_idx;
    create index jobs_outbox_idx on jobs (dispatch_after) where dispatched_at is null and finished_at is null;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop index documents_blob_idx, document_generations_blob_idx, documents_deleted_idx, jobs_outbox_idx;
    create index jobs_outbox_idx on jobs (dispatch_after) where dispatched_at is null;
  `);
}
