import type { Knex } from 'knex';

/** Who users are at the identity provider of the deployment, and the sign-ins there that are under way. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table user_identities (
      -- Whom it names: an email may change its owner, a subject never does.
      issuer text not null,
      subject text not null,
      user_id uuid not null references users (id) on delete cascade,
      created_at timestamptz not null default now(),
      primary key (issuer, subject)
    );
    -- An account is one person's at each provider.
    create unique index user_identities_user_key on user_identities (user_id, issuer);

    create table sign_in_states (
      state_hash bytea primary key,
      nonce text not null,
      -- Sealed for this row.
      code_verifier text not null,
      redirect_uri text not null,
      expires_at timestamptz not null
    );
    create index sign_in_states_expires_idx on sign_in_states (expires_at);

    -- Of a picture that the provider keeps.
    alter table users add column avatar_url text;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table users drop column avatar_url;
    drop table sign_in_states, user_identities;
  `);
}
