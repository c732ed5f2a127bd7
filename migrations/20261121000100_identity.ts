import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table organizations (
      id uuid primary key,
      name text not null,
      tier text not null default 'free' check (tier in ('free', 'pro', 'max')),
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      deleted_at timestamptz
    );

    create table users (
      id uuid primary key,
      email text not null,
      password_hash text,
      first_name text,
      last_name text,
      display_name text not null,
      disabled_at timestamptz,
      deleted_at timestamptz,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now()
    );
    create unique index users_email_key on users (email) where deleted_at is null;

    -- One organization for each user: the primary key says so.
    create table memberships (
      user_id uuid primary key references users (id),
      org_id uuid not null references organizations (id),
      is_org_admin boolean not null default false,
      added_by uuid references users (id),
      added_at timestamptz not null default now(),
      unique (org_id, user_id)
    );
    create index memberships_added_by_idx on memberships (added_by);

    create table teams (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      name text not null,
      disabled_at timestamptz,
      created_at timestamptz not null default now(),
      unique (org_id, id)
    );
    create unique index teams_name_key on teams (org_id, lower(name)) where disabled_at is null;

    create table team_memberships (
      org_id uuid not null,
      team_id uuid not null,
      user_id uuid not null,
      is_team_admin boolean not null default false,
      added_by uuid references users (id),
      added_at timestamptz not null default now(),
      primary key (team_id, user_id),
      foreign key (org_id, team_id) references teams (org_id, id) on delete cascade,
      foreign key (org_id, user_id) references memberships (org_id, user_id) on delete cascade
    );
    create index team_memberships_user_idx on team_memberships (user_id);
    create index team_memberships_org_team_idx on team_memberships (org_id, team_id);
    create index team_memberships_org_user_idx on team_memberships (org_id, user_id);
    create index team_memberships_added_by_idx on team_memberships (added_by);

    -- A login opens a family; every refresh uses up one token and adds the next. Only hashes are stored.
    create table refresh_token_families (
      id uuid primary key,
      user_id uuid not null references users (id),
      expires_at timestamptz not null,
      revoked_at timestamptz,
      created_at timestamptz not null default now()
    );
    create index refresh_token_families_user_idx on refresh_token_families (user_id);

    create table refresh_tokens (
      token_hash bytea primary key,
      family_id uuid not null references refresh_token_families (id) on delete cascade,
      -- Counts the rotations: the predecessor of the newest token may come a second time by a lost answer.
      generation integer not null,
      expires_at timestamptz not null,
      used_at timestamptz,
      created_at timestamptz not null default now(),
      unique (family_id, generation)
    );

    create table audit_log (
      id bigint generated always as identity primary key,
      org_id uuid,
      actor_id uuid,
      action text not null,
      target text,
      detail jsonb not null default '{}',
      request_id text,
      at timestamptz not null default now()
    );
    create index audit_log_org_idx on audit_log (org_id, at desc);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop table audit_log, refresh_tokens, refresh_token_families, team_memberships, teams, memberships, users,
      organizations;
  `);
}
