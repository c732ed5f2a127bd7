import type { Knex } from 'knex';

/**
 * An API key is the only credential of a user of its own, whose `is_api_key` is true. `secret_id` changes with the
 * secret, so that event streams opened with the old secret end.
 */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table users add column is_api_key boolean not null default false;
    alter table memberships add column contributes_to_organization boolean not null default false;

    create table api_keys (
      user_id uuid primary key,
      org_id uuid not null,
      secret_id uuid not null unique,
      secret_hash bytea not null unique,
      hint text not null,
      scopes text[] not null check (cardinality(scopes) > 0),
      expires_at timestamptz,
      last_used_at timestamptz,
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      foreign key (org_id, user_id) references memberships (org_id, user_id) on delete cascade
    );
    create index api_keys_org_created_idx on api_keys (org_id, created_at desc, user_id desc);
    create index api_keys_org_user_idx on api_keys (org_id, user_id);
    create index api_keys_created_by_idx on api_keys (created_by);
  `);
}

export async function down(knex: Knex): Promise<void> {
  // Without its row in api_keys, the user of a key is a disabled account that nobody can sign in to.
  await knex.raw(`
    update users set disabled_at = now() where is_api_key and disabled_at is null;
    drop table api_keys;
    alter table memberships drop column contributes_to_organization;
    alter table users drop column is_api_key;
  `);
}
