import type { Knex } from 'knex';

/** What the syncs before a cursor were to do: changes alone do not bring in line what was to be done otherwise. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table connector_cursors
      add column target_folder_id uuid,
      add column deletes_missing boolean not null default false
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table connector_cursors drop column target_folder_id, drop column deletes_missing');
}
