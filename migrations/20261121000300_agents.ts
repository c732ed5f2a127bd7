import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table drafts (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      visibility text not null check (visibility in ('personal', 'team_level', 'org_level')),
      team_ids uuid[] not null default '{}',
      acl text[] not null,
      head_version_id uuid,
      next_version_number integer not null default 1,
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      unique (org_id, id)
    );
    create index drafts_owner_idx on drafts (org_id, created_by, updated_at desc, id desc);
    create index drafts_created_by_idx on drafts (created_by);

    create table draft_versions (
      id uuid primary key,
      org_id uuid not null,
      draft_id uuid not null,
      parent_version_id uuid,
      version_number integer not null,
      title text not null,
      agent_name text not null,
      agent_prompt text not null,
      tags text[] not null,
      color text,
      icon_name text,
      chat_model text,
      temperature double precision not null,
      max_tokens integer not null,
      anchor_words jsonb not null,
      enabled_tools text[] not null,
      golden_cases jsonb not null,
      eval_scores jsonb,
      eval_status text,
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      unique (org_id, id),
      unique (draft_id, version_number),
      foreign key (org_id, draft_id) references drafts (org_id, id) on delete cascade,
      foreign key (org_id, parent_version_id) references draft_versions (org_id, id)
    );
    -- The chain is linear: a version has one child at most.
    create unique index draft_versions_one_child_key on draft_versions (parent_version_id);
    create index draft_versions_draft_idx on draft_versions (org_id, draft_id);
    create index draft_versions_parent_idx on draft_versions (org_id, parent_version_id);
    create index draft_versions_created_by_idx on draft_versions (created_by);

    alter table drafts add foreign key (org_id, head_version_id) references draft_versions (org_id, id)
      deferrable initially deferred;
    create index drafts_head_idx on drafts (org_id, head_version_id);

    create table agents (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      agent_name text not null,
      agent_prompt text not null,
      tags text[] not null,
      color text,
      icon_name text,
      chat_model text not null,
      temperature double precision not null,
      max_tokens integer not null,
      user_off_topic_streak_threshold integer not null,
      user_on_topic_streak_threshold integer not null,
      enabled_tools text[] not null,
      anchor_words jsonb not null,
      anchor_word_candidates text[] not null default '{}',
      visibility text not null check (visibility in ('personal', 'team_level', 'org_level')),
      team_ids uuid[] not null default '{}',
      acl text[] not null,
      -- The draft may be deleted later; the agent remembers where it came from.
      source_draft_id uuid not null,
      source_version_id uuid not null,
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      deleted_at timestamptz,
      unique (org_id, id)
    );
    create index agents_list_idx on agents (org_id, created_at desc, id desc) where deleted_at is null;
    create index agents_acl_idx on agents using gin (acl);
    create index agents_created_by_idx on agents (created_by);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table drafts drop constraint drafts_org_id_head_version_id_fkey;
    drop table agents, draft_versions, drafts;
  `);
}
