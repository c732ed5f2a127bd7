import type { Knex } from 'knex';

/** In a chat with a draft version, `agent_id` is the id of the draft. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    alter table chats
      drop constraint chats_org_id_agent_id_fkey,
      add column draft_version_id uuid,
      add column published_agent_id uuid generated always as (case when draft_version_id is null then agent_id end) stored;
    create index chats_published_agent_idx on chats (org_id, published_agent_id);
    create index chats_draft_version_idx on chats (org_id, draft_version_id) where draft_version_id is not null;
    alter table chats
      add foreign key (org_id, published_agent_id) references agents (org_id, id),
      add foreign key (org_id, draft_version_id) references draft_versions (org_id, id) on delete cascade;
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw(`
    delete from chats where draft_version_id is not null;
    alter table chats
      drop column published_agent_id,
      drop column draft_version_id,
      add foreign key (org_id, agent_id) references agents (org_id, id);
  `);
}
