import type { Knex } from 'knex';

/** Somebody brings the schedule of a connection in line, and nobody else meanwhile: what he writes last is the newest. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw('alter table connection_schedules add leased_until timestamptz');
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table connection_schedules drop leased_until');
}
