import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- From then on access tokens of the session are refused, too; revoked_at ends its refresh tokens only.
    alter table refresh_token_families add column cut_off_at timestamptz;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table refresh_token_families drop column cut_off_at');
}
