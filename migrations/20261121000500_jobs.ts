import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    -- The truth about asynchronous work for clients, and the outbox of workflow starts: a row is written with the
    -- business row in one transaction; dispatched_at is set once Temporal has the run.
    create table jobs (
      id text primary key,
      org_id uuid not null references organizations (id),
      kind text not null check (kind in ('ingest', 'alignment')),
      status text not null check (status in ('queued', 'running', 'parked', 'succeeded', 'failed', 'cancelled')),
      stage text,
      progress_done integer not null default 0,
      progress_total integer,
      progress_unit text,
      attempt integer not null default 1,
      error_code text,
      error_message text,
      start jsonb not null,
      acl text[] not null,
      document_id uuid,
      chat_id uuid,
      agent_id uuid,
      connection_id uuid,
      request_id text,
      created_by uuid not null references users (id),
      created_at timestamptz not null default now(),
      -- When the sweeper may start what is undispatched: it leaves the request that made the row a moment to do so.
      dispatch_after timestamptz not null default now(),
      dispatched_at timestamptz,
      -- When an open run was last seen to be open.
      checked_at timestamptz,
      started_at timestamptz,
      finished_at timestamptz,
      updated_at timestamptz not null default now()
    );
    create index jobs_list_idx on jobs (org_id, created_at desc, id desc);
    create index jobs_document_idx on jobs (document_id);
    create index jobs_chat_idx on jobs (chat_id);
    create index jobs_connection_idx on jobs (connection_id);
    create index jobs_outbox_idx on jobs (dispatch_after) where dispatched_at is null;
    create index jobs_open_idx on jobs (checked_at) where finished_at is null;
    create index jobs_created_by_idx on jobs (created_by);

    create table idempotency_keys (
      user_id uuid not null references users (id),
      route text not null,
      key text not null,
      fingerprint text not null,
      -- Null while the first request is in flight; its lease is renewed by the process that runs it.
      response_status integer,
      response_headers jsonb,
      response_body jsonb,
      lease_owner uuid not null,
      lease_expires_at timestamptz not null,
      created_at timestamptz not null default now(),
      primary key (user_id, route, key)
    );
    create index idempotency_keys_created_idx on idempotency_keys (created_at);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop table idempotency_keys, jobs');
}
