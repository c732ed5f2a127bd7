import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- For the stream of all jobs, which reads those that have changed since its last event.
    create index jobs_changed_idx on jobs (org_id, updated_at, id);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop index jobs_changed_idx');
}
