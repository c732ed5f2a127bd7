import type { Knex } from 'knex';

/** Who takes somebody into his team must not come to manage his account by that. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- Whoever managed the user has put him into the team, or made him there: its admins manage his account.
    alter table team_memberships add column is_entrusted boolean not null default true;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table team_memberships drop column is_entrusted');
}
