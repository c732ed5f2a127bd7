import type { Knex } from 'knex';

/** Whether admins of teams may add documents and folders to the organization's folder tree. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw('alter table organizations add column team_admins_contribute boolean not null default false');
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('alter table organizations drop column team_admins_contribute');
}
