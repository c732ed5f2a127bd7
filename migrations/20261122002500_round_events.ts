import type { Knex } from 'knex';

export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table rounds
      -- Names the events of the newest attempt to answer.
      add column stream_id uuid,
      -- How often its message was sent again after a failure.
      add column attempt integer not null default 0,
      -- The number of its last event; null while it is open, and for one whose process died.
      add column last_seq integer;

    -- What went out to those who read an answer while it is written, for those who come back. No foreign key: a row is
    -- written with those of other chats, which must not be lost when one of the chats is deleted meanwhile.
    create table round_events (
      org_id uuid not null references organizations (id),
      stream_id uuid not null,
      first_seq integer not null,
      last_seq integer not null,
      chat_id uuid not null,
      -- A JSON array; as text, which is sent again byte by byte.
      events text not null,
      created_at timestamptz not null default now(),
      primary key (stream_id, first_seq)
    );
    create index round_events_chat_idx on round_events (org_id, chat_id);
    create index round_events_created_idx on round_events (created_at);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    drop table round_events;
    alter table rounds drop column stream_id, drop column attempt, drop column last_seq;
  `);
}
