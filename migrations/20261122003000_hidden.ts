import type { Knex } from 'knex';

/** Drafts and agents that a user has taken out of his own lists. */
export async function up(knex: Knex): Promise<void> {
  await knex.raw(`
    create table hidden_drafts (
      org_id uuid not null,
      user_id uuid not null references users (id) on delete cascade,
      draft_id uuid not null,
      primary key (user_id, draft_id),
      foreign key (org_id, draft_id) references drafts (org_id, id) on delete cascade
    );
    create index hidden_drafts_draft_idx on hidden_drafts (org_id, draft_id);

    create table hidden_agents (
      org_id uuid not null,
      user_id uuid not null references users (id) on delete cascade,
      agent_id uuid not null,
      primary key (user_id, agent_id),
      foreign key (org_id, agent_id) references agents (org_id, id) on delete cascade
    );
    create index hidden_agents_agent_idx on hidden_agents (org_id, agent_id);
  `);
}

export async function down(knex: Knex): Promise<void> {
  await knex.raw('drop table hidden_agents, hidden_drafts');
}
