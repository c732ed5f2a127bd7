import type { Knex } from 'knex';

/** How an organization's tools get to their providers, and the consents to that which are under way. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table tool_connections (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      provider text not null,
      status text not null check (status in ('active', 'needs_reauth')),
      -- Sealed for this row: the key of an API, or the tokens of a grant.
      credentials text not null,
      scopes text[] not null,
      -- Of the access token; null where there is none, or nobody knows.
      expires_at timestamptz,
      -- Counts the credentials: whoever has refreshed old ones must not put them over newer ones.
      generation integer not null default 1,
      -- Somebody is asking for new tokens: others wait, since each use of a refresh token may be its last.
      refresh_until timestamptz,
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      unique (org_id, id),
      unique (org_id, provider)
    );

    create table oauth_states (
      state_hash bytea primary key,
      org_id uuid not null,
      user_id uuid not null,
      purpose text not null,
      provider text not null,
      -- Sealed for this row.
      code_verifier text not null,
      redirect_uri text not null,
      scopes text[] not null,
      -- Where the browser goes afterwards; null: it gets the answer itself.
      return_to text,
      expires_at timestamptz not null,
      foreign key (org_id, user_id) references memberships (org_id, user_id) on delete cascade
    );
    create index oauth_states_user_idx on oauth_states (org_id, user_id);
    create index oauth_states_expires_idx on oauth_states (expires_at);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop table oauth_states, tool_connections');
}
