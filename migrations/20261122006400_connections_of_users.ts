import type { Knex } from 'knex';

/** How users get us to the files that a provider keeps for them. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table connections (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      user_id uuid not null references users (id),
      provider text not null,
      display_name text not null,
      status text not null check (status in ('pending', 'active', 'needs_reauth', 'error')),
      -- Why it does not work, as code and words; null where it does.
      last_error text,
      -- Whose files they are at the provider: who consents again for the same gets the same connection.
      account_id text not null,
      -- What the provider is asked for, such as a bucket or a site, and how it is synchronized.
      config jsonb not null,
      -- Sealed for this row: keys, or the tokens of a grant.
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
      unique (org_id, id)
    );
    create index connections_user_idx on connections (org_id, user_id, created_at);
    create index connections_user_only_idx on connections (user_id);
    create index connections_account_idx on connections (provider, account_id);
    -- Keys are not consented to: whoever wants two connections to a bucket gets them.
    create unique index connections_grant_idx on connections (org_id, user_id, provider, account_id)
      where provider <> 'acme_s3';

    alter table oauth_states add column site_id text;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table oauth_states drop column site_id;
    drop table connections;
  `);
}
