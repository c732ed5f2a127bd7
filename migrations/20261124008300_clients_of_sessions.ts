import type { Knex } from 'knex';

/** From where sessions were opened: the device that the user sees in the list, and networks whose sign-ins wait less. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table refresh_token_families
      add column user_agent text,
      -- The hash of the client's network and the user's id.
      add column network_hash bytea;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table refresh_token_families drop column user_agent, drop column network_hash');
}
