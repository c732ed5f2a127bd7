import type { Knex } from 'knex';

/** The next place of a run is looked for a page at a time: not among all that are done. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw('create index import_places_open_idx on import_places (run_id, id) where done_at is null');
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop index import_places_open_idx');
}
