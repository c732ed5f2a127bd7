import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Names one attempt for good. Its number comes again after an older database was restored, while the engine still
    -- has the runs of those that had it before.
    alter table jobs add column start_id uuid not null default gen_random_uuid();
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table jobs drop column start_id');
}
