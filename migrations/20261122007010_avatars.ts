import type { Knex } from 'knex';

/** The pictures that users have uploaded of themselves, as small WebP. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table avatars (
      org_id uuid not null references organizations (id),
      user_id uuid primary key references users (id),
      content bytea not null,
      sha256 text not null,
      updated_at timestamptz not null default now()
    );
    create index avatars_org_idx on avatars (org_id);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop table avatars');
}
