import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table chats (
      id uuid primary key,
      org_id uuid not null references organizations (id),
      agent_id uuid not null,
      title text not null,
      title_source text not null check (title_source in ('message', 'generated', 'user')),
      visibility text not null check (visibility in ('personal', 'team_level', 'org_level')),
      team_ids uuid[] not null default '{}',
      acl text[] not null,
      round_count integer not null default 0,
      -- The newest folded round, repeated here for lists.
      echo_round integer not null default 0,
      echo_state text not null default 'stable',
      ewma double precision not null default 100,
      alignment_score double precision not null default 1,
      input_tokens integer not null default 0,
      completion_tokens integer not null default 0,
      latency_ms integer not null default 0,
      rag_enabled boolean not null,
      rag_reranking boolean not null,
      rag_reranking_type text not null check (rag_reranking_type in ('cross_encoder', 'llm')),
      rag_include_document_ids uuid[],
      rag_exclude_document_ids uuid[],
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      updated_at timestamptz not null default now(),
      unique (org_id, id),
      foreign key (org_id, agent_id) references agents (org_id, id)
    );
    create index chats_list_idx on chats (org_id, updated_at desc, id desc);
    create index chats_acl_idx on chats using gin (acl);
    create index chats_agent_idx on chats (org_id, agent_id, updated_at desc);
    create index chats_created_by_idx on chats (created_by);

    -- A round is open while its answer is written (under a lease), then complete or in error.
    -- Complete rounds with scored_at null are the queue of the alignment workflow.
    create table rounds (
      org_id uuid not null,
      chat_id uuid not null,
      round integer not null check (round >= 1),
      status text not null check (status in ('open', 'complete', 'error')),
      user_content text not null,
      assistant_reply text,
      model text not null,
      citations jsonb not null default '[]',
      -- Events of writing the answer (steering, dropped citations, degraded retrieval); those of scoring are in events.
      answer_events jsonb not null default '[]',
      -- A repeated request finds the round that it made.
      idempotency_key text,
      input_tokens integer not null default 0,
      cached_input_tokens integer not null default 0,
      completion_tokens integer not null default 0,
      cost_usd numeric(14, 8) not null default 0,
      latency_ms integer,
      error_code text,
      lease_owner text,
      lease_expires_at timestamptz,
      pruned boolean not null default false,
      started_at timestamptz not null default now(),
      finished_at timestamptz,
      -- Scores (0..1) and the fold's state after this round.
      scored_at timestamptz,
      scorer_version text,
      user_score double precision,
      agent_score double precision,
      neutral boolean,
      refusal_kind text,
      alignment_score double precision,
      ewma double precision,
      echo_state text,
      fold_state jsonb,
      events jsonb not null default '[]',
      primary key (chat_id, round),
      foreign key (org_id, chat_id) references chats (org_id, id) on delete cascade
    );
    create index rounds_org_chat_idx on rounds (org_id, chat_id);
    create unique index rounds_idempotency_key on rounds (chat_id, idempotency_key);
    create unique index rounds_one_open_key on rounds (chat_id) where status = 'open';
    create index rounds_lease_idx on rounds (lease_expires_at) where status = 'open';
    create index rounds_unscored_idx on rounds (finished_at) where status = 'complete' and scored_at is null;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop table rounds, chats');
}
