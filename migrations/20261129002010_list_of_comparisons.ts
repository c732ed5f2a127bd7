import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Only a comparison has a baseline.
    create index evaluation_runs_comparisons_idx on evaluation_runs (org_id, created_at desc, id desc)
      where baseline_version_id is not null;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop index evaluation_runs_comparisons_idx');
}
