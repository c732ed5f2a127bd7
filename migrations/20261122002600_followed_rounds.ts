import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  // When somebody last read on in the answer while it was written, from any process; see STREAM_ON_DISCONNECT.
  await knex.raw('alter table rounds add column followed_at timestamptz');
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table rounds drop column followed_at');
}
